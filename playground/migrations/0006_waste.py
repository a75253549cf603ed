import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("playground", "0005_many_sessions_of_an_engine")]

    operations = [
        migrations.CreateModel(
            name="Waste",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("origin", models.CharField(db_index=True, max_length=16)),
                ("ended", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
    ]
