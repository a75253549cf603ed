"""Django's settings. What a person may set comes from the environment, through the table in playground/conf.py."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from csp.constants import NONCE, NONE, SELF, UNSAFE_INLINE
from django.core.exceptions import ImproperlyConfigured

from playground import conf
from playground.access import private

BASE_DIR = conf.ROOT
VAR = conf.get("UCUTLASS_VAR")
private.folder(VAR)


def _secret_key() -> str:
    """The given key, or one made once. Two processes may start at once: whoever links the file first wins."""
    if key := conf.get("UCUTLASS_SECRET_KEY"):
        return key
    path = VAR / "secret_key"
    if not path.exists():
        mine = VAR / f".secret_key.{os.getpid()}"
        mine.touch(mode=0o600)
        mine.write_text(secrets.token_urlsafe(50))
        try:
            os.link(mine, path)
        except FileExistsError:
            pass
        finally:
            mine.unlink()
    private.close(path)
    return path.read_text().strip()


def _database(url: str) -> dict:
    """SQLite in VAR, or what DATABASE_URL names."""
    if not url:
        private.database(VAR / "playground.sqlite3")
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": VAR / "playground.sqlite3",
            "OPTIONS": {
                # Readers never wait for the writer (WAL), a writer waits for the other (timeout, in seconds), and
                # takes its lock at BEGIN so that no transaction fails half-way with "database is locked".
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
            },
            # A file, not memory: the tests read it from several threads and processes.
            "TEST": {"NAME": str(Path(tempfile.gettempdir()) / f"ucutlass-test-{os.getpid()}.sqlite3")},
        }
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(
            f"DATABASE_URL starts with {parts.scheme!r}. Write postgres://user:password@host:5432/name, "
            "or leave it out to use SQLite."
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_HEALTH_CHECKS": True,
    }


SECRET_KEY = _secret_key()
DEBUG = conf.get("UCUTLASS_DEBUG")
ALLOWED_HOSTS = conf.get("UCUTLASS_HOSTS")
DATABASES = {"default": _database(conf.get("DATABASE_URL"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    *(["daphne"] if "runserver" in sys.argv else []),  # only for that command: importing Twisted takes 0.3 s of a core
    "channels",
    "whitenoise.runserver_nostatic",
    "playground.apps.StaticConfig",
    "csp",
    "playground",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "playground.access.middleware.Permissions",
    "playground.access.middleware.Readable",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "playground.access.middleware.SameOrigin",
    "playground.access.middleware.Methods",
    "playground.access.middleware.Failures",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "ucutlass_web.urls"
ASGI_APPLICATION = "ucutlass_web.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": ["django.template.context_processors.request", "csp.context_processors.nonce"]
        },
    }
]

# No channel layer: the log carries everything, and the hub's poller is the bell (playground/live/hub.py).

STATIC_URL = "/static/"
STATIC_ROOT = VAR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    }
}
WHITENOISE_KEEP_ONLY_HASHED_FILES = False  # modules import each other by their plain names
WHITENOISE_ALLOW_ALL_ORIGINS = False

FILE_UPLOAD_PERMISSIONS, FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o600, 0o700  # of collected static files
# JSON may write a byte as six (\u000a); the text itself is measured after that.
DATA_UPLOAD_MAX_MEMORY_SIZE = 6 * 1024 * conf.get("UCUTLASS_SOURCE_KIB") + 16 * 1024
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = True  # pages that speak several languages choose theirs by themselves; no cookie, no middleware
LANGUAGES = [("en", "English"), ("ko", "한국어")]
LOCALE_PATHS = sorted((BASE_DIR / "playground").glob("*/locale"))

# Nothing from elsewhere, nothing inline. Two allowances, as narrow as they go:
#  - CodeMirror adds its theme as a <style> element and carries the page's nonce.
#  - Plotly adds one *empty* <style> element (the second hash is SHA-256 of nothing) and fills it through the CSSOM,
#    and writes style="" attributes on its SVG; an attribute can style its own element and can run nothing.
_EMPTY = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF, NONCE, _EMPTY],
        "style-src-attr": [UNSAFE_INLINE],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "manifest-src": [SELF],
        "worker-src": [SELF],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
# Links are the keys here: a page never tells another site where it was.
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
if conf.get("UCUTLASS_TRUST_PROXY"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "playground.access.redaction.Formatter",
            "fmt": "{asctime} {levelname:.1} {name}: {message}",
            "style": "{",
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "playground": {"level": "INFO"},
        # Django gives these two handlers of their own, which would log addresses as they came.
        "django": {"handlers": [], "level": "INFO"},
        "django.server": {"handlers": [], "level": "INFO", "propagate": True},
    },
}
SILENCED_SYSTEM_CHECKS: list[str] = []
