from django.apps import AppConfig
from django.contrib.staticfiles.apps import StaticFilesConfig


class PlaygroundConfig(AppConfig):
    name = "playground"
    verbose_name = "μCUTLASS playground"
    default_auto_field = "django.db.models.BigAutoField"


class StaticConfig(StaticFilesConfig):
    """What is not for visitors: how static/vendor was built, and the half of ninja's pages that we do not show."""

    ignore_patterns = (*StaticFilesConfig.ignore_patterns, "build", "node_modules", "*.sh", "redoc*")
