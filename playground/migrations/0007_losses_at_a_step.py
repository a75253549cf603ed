from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("playground", "0006_waste")]

    operations = [
        migrations.AddField(model_name="session", name="lost_at", field=models.PositiveIntegerField(default=0)),
    ]
