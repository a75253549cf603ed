import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import playground.models


class Migration(migrations.Migration):

    dependencies = [("playground", "0007_losses_at_a_step")]

    operations = [
        migrations.CreateModel(
            name="OwnerToken",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=playground.models.new_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("token_hash", models.CharField(max_length=64, null=True, unique=True)),
                ("key_hash", models.CharField(db_index=True, max_length=64)),
                ("label", models.CharField(blank=True, max_length=80)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("last_used", models.DateTimeField(null=True)),
                ("revoked", models.DateTimeField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name="session",
            name="owner",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="sessions",
                to="playground.ownertoken",
            ),
        ),
    ]
