"""A real provider of OpenID Connect in a process of its own: django-oauth-toolkit under Django.

    python openid_provider.py FOLDER PORT REDIRECT

One program is registered (`us`, with a secret, and PKCE as the toolkit asks of all), and two people
sign in by the form of Django's administration. Prints a line once it answers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import django
from django.conf import settings

PEOPLE = {"ada": "difference engine", "mallory": "let me in please"}
CLIENT, SECRET = "us", "a secret of two"


def configure(folder: Path, issuer: str) -> None:
    """As the toolkit's documentation has it, with a key of its own."""
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048).private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    )
    settings.configure(
        ALLOWED_HOSTS=["127.0.0.1"],
        AUTH_USER_MODEL="auth.User",
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": folder / "db"}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=[
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.messages",
            "django.contrib.sessions",
            "oauth2_provider",
        ],
        LOGIN_URL="/admin/login/",
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        OAUTH2_PROVIDER={
            "OAUTH2_VALIDATOR_CLASS": f"{__name__}.Validator",
            "OIDC_ENABLED": True,
            "OIDC_ISS_ENDPOINT": issuer,
            "OIDC_RSA_PRIVATE_KEY": key.decode(),
            "PKCE_REQUIRED": True,
            "SCOPES": {name: name for name in ("openid", "profile", "email")},
        },
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        ROOT_URLCONF=__name__,
        SECRET_KEY="of one test",
        TEMPLATES=[
            {
                "APP_DIRS": True,
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        USE_TZ=True,
    )
    django.setup()


def fill(redirect: str) -> None:
    """The tables, the people, and the program that may ask."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from oauth2_provider.models import Application

    call_command("migrate", verbosity=0)
    for name, word in PEOPLE.items():
        User.objects.create_superuser(name, password=word)  # who may use the form
    Application.objects.create(
        client_id=CLIENT,
        client_secret=SECRET,
        client_type=Application.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
        algorithm=Application.RS256_ALGORITHM,
        redirect_uris=redirect,
        skip_authorization=True,
    )


if __name__ == "__main__":
    sys.modules["openid_provider"] = sys.modules[__name__]
    __name__ = "openid_provider"
    place, port = Path(sys.argv[1]), int(sys.argv[2])
    configure(place, f"http://127.0.0.1:{port}/o")

    from django.contrib import admin
    from django.urls import include, path
    from oauth2_provider.oauth2_validators import OAuth2Validator

    class Validator(OAuth2Validator):  # type: ignore[misc]
        """Names people as most providers do."""

        def get_additional_claims(self, request: object) -> dict[str, str]:
            """What an identity token says beside who it is for."""
            return {"preferred_username": request.user.username}  # type: ignore[attr-defined]

    urlpatterns = [path("admin/", admin.site.urls), path("o/", include("oauth2_provider.urls"))]
    fill(sys.argv[3])

    from wsgiref.simple_server import make_server

    from django.core.wsgi import get_wsgi_application

    server = make_server("127.0.0.1", port, get_wsgi_application())
    print("ready", flush=True)
    server.serve_forever()
