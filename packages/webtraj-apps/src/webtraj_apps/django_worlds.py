# mypy: ignore-errors
"""The common part of Django applications' hosts: settings, worlds, logins, static files.

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
import html
import mimetypes
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import django
import people
import serve
from django.conf import settings
from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.files.storage import FileSystemStorage
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.sqlite3.base import DatabaseWrapper
from django.db.models import Model
from django.db.models.fields.related_descriptors import ForwardManyToOneDescriptor
from django.template import base as template
from django.template.base import NodeList
from django.urls import URLResolver, base
from django.utils.safestring import SafeString
from django.utils.translation import trans_real

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
    "remember",
    "templates",
]

DATABASE = "db.sqlite3"
"""The name of a world's database."""
_OPEN = 8
"""How many databases are kept open."""
_ADDRESSES = 10_000
"""How many addresses of pages are kept."""
_FOREVER = 60 * 60 * 24 * 3650
_COMMON: dict[str, Any] = {
    "ALLOWED_HOSTS": ["*"],
    # Emptied before each request.
    "CACHES": {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
    "DATABASES": {
        "default": {
            "CONN_MAX_AGE": None,
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
        pages: Templates that override those of the same names in packages.
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
    """Set up Django with the settings that all applications share, and further ones."""
    settings.configure(**(_COMMON | more))
    _share_between_threads()
    _remember_rows()
    _cache_lookups()
    django.setup()


class _World:
    """A world, as long as its database is open."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.connection: DatabaseWrapper = connections.create_connection(DEFAULT_DB_ALIAS)
        self.connection.settings_dict = {
            **self.connection.settings_dict,
            "NAME": str(state / DATABASE),
        }
        self.connection.execute_wrappers.append(self._forget_before_change)
        self.rows: dict[Any, Model] = {}
        """Rows that foreign keys of the current request led to."""
        self.values: dict[Any, Any] = {}
        """What `remember` found."""
        self._version: int | None = None

    def enter(self) -> None:
        """Make Django read and write this world from now on."""
        connections[DEFAULT_DB_ALIAS] = self.connection
        self.rows.clear()
        self.connection.ensure_connection()
        # The version differs after a change by another process.
        (version,) = self.connection.connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self.values.clear()

    def _forget_before_change(self, execute: Any, sql: str, *arguments: Any) -> Any:
        if not sql.startswith("SELECT"):
            self.rows.clear()
            self.values.clear()
        return execute(sql, *arguments)


_worlds: dict[Path, _World] = {}
"""The worlds whose databases are open; the current one is the last."""


def enter(state: Path) -> None:
    """Make Django read and write the world in a folder from now on."""
    world = _worlds.pop(state, None)
    if world is None:
        for other in list(_worlds):
            if len(_worlds) >= _OPEN or not other.exists():
                _worlds.pop(other).connection.close()
        world = _World(state)
    _worlds[state] = world
    world.enter()
    caches[DEFAULT_CACHE_ALIAS].clear()


def _current() -> _World:
    return next(reversed(_worlds.values()))


def remember(key: Any, find: Callable[[], Any]) -> Any:
    """Return the result of `find`, cached until the world's database changes.

    Inside a transaction, which may be undone, `find` is called each time.
    """
    values = _current().values
    if connection.in_atomic_block:
        return find()
    if key not in values:
        values[key] = find()
    return values[key]


def _remember_rows() -> None:
    """Make foreign keys in a request that lead to the same row load it only once.

    Lists load the same users and categories for each line, which takes half of a page's time.
    """
    load = ForwardManyToOneDescriptor.get_object

    def get_object(self: ForwardManyToOneDescriptor, instance: Model) -> Model:
        field = self.field
        if connection.in_atomic_block or field.get_extra_descriptor_filter(instance):
            return load(self, instance)
        rows = _current().rows
        names = tuple(one.attname for one in field.foreign_related_fields)
        key = field.remote_field.model, names, field.get_local_related_value(instance)
        if key not in rows:
            rows[key] = load(self, instance)
        return rows[key]

    ForwardManyToOneDescriptor.get_object = get_object


def _share_between_threads() -> None:
    """Turn Django's storage per thread or task into plain attributes, since one thread serves all.

    Its storage for tasks takes a tenth of a page.
    """
    connections._connections = SimpleNamespace()
    caches._connections = SimpleNamespace()
    trans_real._active = SimpleNamespace()
    base._prefixes = SimpleNamespace()
    base._urlconfs = SimpleNamespace()


def _cache_lookups() -> None:
    """Cache the translations and addresses that templates look up, and simplify rendering."""
    # Django's own notes the place of an error, for a debugger.
    NodeList.render = lambda nodes, context: SafeString(
        "".join([node.render(context) for node in nodes])
    )

    escape = template.conditional_escape
    template.conditional_escape = lambda text: (
        SafeString(html.escape(text)) if type(text) is str else escape(text)
    )

    translate, translations = trans_real.gettext, {}

    def gettext(message: str) -> str:
        key = getattr(trans_real._active, "value", None), type(message), message
        if key not in translations:
            translations[key] = translate(message)
        return translations[key]

    trans_real.gettext = gettext

    find, addresses = URLResolver._reverse_with_prefix, {}

    def reverse(self: URLResolver, view: Any, prefix: str, *args: Any, **kwargs: Any) -> str:
        values = (*args, *kwargs.values())
        if not all(type(value) in (int, str) for value in values) or len(addresses) > _ADDRESSES:
            return find(self, view, prefix, *args, **kwargs)
        key = self, view, prefix, *kwargs, *values, *map(type, values)
        if key not in addresses:
            addresses[key] = find(self, view, prefix, *args, **kwargs)
        return addresses[key]

    URLResolver._reverse_with_prefix = reverse


class WorldStorage(FileSystemStorage):
    """Uploaded files, in the folder of the current world."""

    @property
    def base_location(self) -> str:
        """The folder of the uploads."""
        return str(_current().state / "media")

    @property
    def location(self) -> str:
        """The folder of the uploads, absolute."""
        return str((_current().state / "media").absolute())


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
        key: The field by whose value users are returned, if not the username.
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
    media = (_current().state / "media").absolute()
    file = Path(os.path.normpath(media / path.removeprefix(settings.MEDIA_URL)))
    return _content(file) if file.is_relative_to(media) and file.is_file() else None


def _content(file: Path) -> tuple[str, bytes]:
    kind = (
        _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    )
    return kind, file.read_bytes()
