from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("playground", "0004_fold_summaries_to_shape_2")]

    operations = [
        migrations.RemoveField(model_name="engine", name="session"),
        migrations.AddField(model_name="engine", name="sessions", field=models.PositiveIntegerField(default=0)),
    ]
