from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("playground", "0005_many_sessions_of_an_engine")]

    operations = [
        migrations.AddField(model_name="session", name="lost_at", field=models.PositiveIntegerField(default=0)),
    ]
