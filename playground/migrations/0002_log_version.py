"""Each session's log gets the version of engine.session.events that wrote it. Every log so far is of version 1."""

from django.db import migrations, models


def backfill(apps, schema_editor):
    apps.get_model("playground", "Session").objects.filter(last_seq__gt=0).update(log_version=1)


class Migration(migrations.Migration):

    dependencies = [("playground", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="session", name="log_version", field=models.PositiveSmallIntegerField(default=0)
        ),
        migrations.RunPython(backfill, migrations.RunPython.noop, elidable=True),
    ]
