import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("playground", "0008_owner_tokens")]

    operations = [
        migrations.AddField(model_name="session", name="own_key", field=models.BooleanField(default=False)),
        migrations.CreateModel(
            name="SealedKey",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="sealed_key",
                        serialize=False,
                        to="playground.session",
                    ),
                ),
                ("claim", models.PositiveIntegerField()),
                ("sealed", models.BinaryField()),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
    ]
