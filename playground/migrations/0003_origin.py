from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("playground", "0002_log_version")]

    operations = [
        migrations.CreateModel(
            name="Turn",
            fields=[
                ("origin", models.CharField(max_length=16, primary_key=True, serialize=False)),
                ("served", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="session", name="origin", field=models.CharField(blank=True, default="", max_length=16)
        ),
    ]
