"""Session.summary is engine.session.fold.reduce's listing, shape 2: fold the logs of older rows again."""

from django.db import migrations


def fold_again(apps, schema_editor):
    from playground import summary

    summary.fold_again(apps.get_model("playground", "Session").objects, apps.get_model("playground", "SessionEvent").objects)


class Migration(migrations.Migration):

    dependencies = [
        ("playground", "0003_origin"),
    ]

    operations = [
        migrations.RunPython(fold_again, migrations.RunPython.noop),
    ]
