from django.apps import AppConfig
from django.contrib.staticfiles.apps import StaticFilesConfig


class PlaygroundConfig(AppConfig):
    name = "playground"
    verbose_name = "μCUTLASS playground"
    default_auto_field = "django.db.models.BigAutoField"


class StaticConfig(StaticFilesConfig):
    """Excludes files that are not for visitors: how static/vendor was built."""

    ignore_patterns = (*StaticFilesConfig.ignore_patterns, "build", "node_modules", "*.sh")
