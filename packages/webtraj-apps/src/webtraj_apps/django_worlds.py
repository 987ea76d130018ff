# mypy: ignore-errors
"""What the hosts of Django applications share: settings, worlds, logged-in browsers, static files.

Runs in the application's own virtual environment, so only the standard library and Django are
imported. A world is a folder with one SQLite file, `DATABASE`, and uploads in `media`.
A host reads:

    django_worlds.configure(INSTALLED_APPS=[...], ROOT_URLCONF=..., ...)   # once, at import
    enter = django_worlds.enter

    def build(state, seed):
        django_worlds.create(state)
        ...                                   # make the content with Django's models
        facts["cookies"] = django_worlds.cookies(User.objects.all())
        django_worlds.finish(state)
        return facts

    def open_application(root):
        return django_worlds.application()
"""

import hashlib
import mimetypes
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import django
import people
import serve
from django.conf import settings
from django.core.files.storage import FileSystemStorage
from django.db import connection

__all__ = [
    "DATABASE",
    "MIDDLEWARE",
    "WorldStorage",
    "account",
    "application",
    "configure",
    "cookies",
    "create",
    "enter",
    "facts_of",
    "finish",
    "password_hash",
    "templates",
]

DATABASE = "db.sqlite3"
"""The name of a world's database."""
_FOREVER = 60 * 60 * 24 * 3650
_COMMON: dict[str, Any] = {
    "ALLOWED_HOSTS": ["*"],
    "CACHES": {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}},
    "DATABASES": {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.devnull,
            "OPTIONS": {"init_command": "PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY"},
        }
    },
    "DEBUG": False,
    "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
    "EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
    "LANGUAGE_CODE": "en-gb",
    "LOGGING": {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"stderr": {"class": "logging.StreamHandler", "level": "ERROR"}},
        "loggers": {"django": {"handlers": ["stderr"], "propagate": False}},
    },
    "MEDIA_URL": "/media/",
    "PASSWORD_HASHERS": ["django.contrib.auth.hashers.MD5PasswordHasher"],
    "SECRET_KEY": "of a world without secrets",
    "SESSION_COOKIE_AGE": _FOREVER,
    "STATIC_URL": "/static/",
    "STORAGES": {
        "default": {"BACKEND": "django_worlds.WorldStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    },
    "TIME_ZONE": "UTC",
    "USE_TZ": True,
}
_TYPES = {
    ".woff2": "font/woff2",
    ".woff": "font/woff",
    ".js": "text/javascript",
    ".map": "text/plain",
}


MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
"""What most applications begin with."""


def templates(*processors: str, pages: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the setting `TEMPLATES`.

    Args:
        processors: Context processors besides Django's own.
        pages: Templates that come before those of the same names in packages.
    """
    ours = ("django.template.loaders.locmem.Loader", pages or {})
    loaders = [ours, "django.template.loaders.app_directories.Loader"]
    options = {
        "context_processors": [
            "django.template.context_processors.request",
            "django.contrib.auth.context_processors.auth",
            "django.contrib.messages.context_processors.messages",
            *processors,
        ],
        "loaders": [("django.template.loaders.cached.Loader", loaders)],
    }
    return [{"BACKEND": "django.template.backends.django.DjangoTemplates", "OPTIONS": options}]


def configure(**more: Any) -> None:
    """Set Django up with the settings that all applications share, and with more of its own."""
    settings.configure(**(_COMMON | more))
    django.setup()


class _Entered:
    """The folder of the world that the current request belongs to."""

    state = Path(os.devnull)


def enter(state: Path) -> None:
    """Make Django read and write the world in a folder from now on."""
    # Close before the change: what the old connection has open belongs to the old world.
    connection.close()
    connection.settings_dict["NAME"] = str(state / DATABASE)
    _Entered.state = state


class WorldStorage(FileSystemStorage):
    """Uploaded files, in the folder of the current world."""

    @property
    def base_location(self) -> str:
        """The folder of the uploads."""
        return str(_Entered.state / "media")

    @property
    def location(self) -> str:
        """The folder of the uploads, absolute."""
        return str((_Entered.state / "media").absolute())


def create(state: Path) -> None:
    """Enter a new world, with empty tables."""
    from django.core.management import call_command

    enter(state)
    call_command("migrate", verbosity=0)


def finish(state: Path) -> None:
    """Make the database as small as can be, and close it."""
    connection.close()
    serve.compact(state / DATABASE)


def password_hash(password: str) -> str:
    """Return what is stored for a password, the same each time."""
    from django.contrib.auth.hashers import make_password

    return make_password(password, salt="northfield")


def account(person: people.Person) -> dict[str, str]:
    """Return the fields of a person's account."""
    return {
        "username": person.username,
        "first_name": person.first,
        "last_name": person.last,
        "email": person.email,
        "password": password_hash(people.PASSWORD),
    }


def facts_of(user: Any) -> dict[str, Any]:
    """Return what tasks may mention of an account."""
    return {
        "id": user.pk,
        "username": user.username,
        "name": user.get_full_name(),
        "email": user.email,
    }


def cookies(users: Iterable[Any], key: Callable[[Any], str] | None = None) -> dict[str, Any]:
    """Log users in, and return the cookies of each, by username.

    Args:
        users: Saved users, with their passwords.
        key: The name under which a user is returned, if it is not the username.
    """
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    made = {}
    for user in users:
        name = key(user) if key else user.get_username()
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session._session_key = hashlib.sha256(f"session {name}".encode()).hexdigest()[:32]
        session.save(must_create=True)
        made[name] = {settings.SESSION_COOKIE_NAME: session.session_key}
    return made


def application(draw: Callable[[str], tuple[str, bytes] | None] | None = None) -> Any:
    """Return the WSGI application, which serves static files and uploads too.

    Args:
        draw: Makes files that are not kept anywhere: the path of a request to the type and content
            of the file, or None. Asked before all else, once for each path.
    """
    from django.core.wsgi import get_wsgi_application

    pages = get_wsgi_application()
    fixed: dict[str, tuple[str, bytes] | None] = {}

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        path = environ.get("PATH_INFO", "")
        is_media = path.startswith(settings.MEDIA_URL)
        if not (is_media or path.startswith(settings.STATIC_URL)):
            return pages(environ, start_response)
        if path not in fixed:
            found = (draw(path) if draw else None) or (None if is_media else _static(path))
            if found:
                fixed[path] = found
        file, lasting = fixed.get(path), "public, max-age=31536000"
        if not file and is_media:
            file, lasting = _upload(path), "no-store"
        if not file:
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"Not found.\n"]
        kind, content = file
        headers = [("Content-Type", kind), ("Content-Length", str(len(content)))]
        start_response("200 OK", [*headers, ("Cache-Control", lasting)])
        return [content]

    return answer


def _static(path: str) -> tuple[str, bytes] | None:
    from django.contrib.staticfiles import finders

    found = finders.find(path.removeprefix(settings.STATIC_URL))
    return _content(Path(found)) if found and Path(found).is_file() else None


def _upload(path: str) -> tuple[str, bytes] | None:
    media = (_Entered.state / "media").absolute()
    file = Path(os.path.normpath(media / path.removeprefix(settings.MEDIA_URL)))
    return _content(file) if file.is_relative_to(media) and file.is_file() else None


def _content(file: Path) -> tuple[str, bytes]:
    kind = (
        _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    )
    return kind, file.read_bytes()
