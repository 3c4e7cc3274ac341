"""Words that make a file's name one of a secret, whatever stands before them.

In a name as in a sentence, the last word says what the file is: ``db-password.txt`` holds a
password, ``password-policy.txt`` a policy. So each kind is a word at the end of the name, before an
environment such as ``.prod`` and the ending of a file of data. Sources and documents have other
endings: ``api_key.py`` and ``api-key.md`` are about keys. Patterns are those of `DenyList`.
"""

from typing import NamedTuple


class SecretWord(NamedTuple):
    """A word for a secret, what must stand before it, and the endings of its files."""

    before: str
    word: str
    endings: str


def _either(*words: str) -> str:
    """Return the pattern of any of some words.

    >>> _either("api", "ssh")
    '{api,ssh}'
    """
    return "{" + ",".join(words) + "}"


_VENDORS = (
    "airtable", "algolia", "anthropic", "atlassian", "auth0", "aws", "azure", "bigquery",
    "bitbucket", "buildkite", "circleci", "claude", "cloudflare", "codecov", "cohere", "consul",
    "databricks", "datadog", "digitalocean", "discord", "docker", "dropbox", "facebook", "firebase",
    "gcloud", "gcp", "gcs", "gemini", "github", "gitlab", "google", "grafana", "groq", "heroku",
    "huggingface", "jenkins", "jira", "k8s", "kubernetes", "mailchimp", "mailgun", "mapbox",
    "mistral", "netlify", "newrelic", "notion", "npm", "okta", "openai", "openrouter", "paypal",
    "pinecone", "postmark", "pypi", "replicate", "rubygems", "sendgrid", "sentry", "shopify",
    "slack", "snyk", "splunk", "spotify", "stripe", "supabase", "telegram", "travis", "twilio",
    "twitter", "vault", "vercel", "wandb",
)  # fmt: skip
_KEY_USES = (
    "access", "account", "api", "auth", "client", "cookie", "crypt", "decryption", "deploy",
    "deployment", "encryption", "hmac", "jwt", "licence", "license", "master", "play", "priv",
    "private", "root", "secret", "server", "service", "session", "signature", "signing", "ssh",
    "ssl", "store", "tls", "unseal", "webhook",
)  # fmt: skip
_SHORT_KEY_USES = ("aes", "age", "app", "bot", "ec", "gsa", "psk", "rsa", "s3", "sa", "sops")
_TOKEN_USES = (
    "access", "api", "app", "auth", "bearer", "bot", "deploy", "integration", "jwt", "login",
    "oauth", "oauth2", "personal", "refresh", "registry", "runner", "secret", "service", "session",
    "sso",
)  # fmt: skip
_STAGES = (
    "ci", "dev", "development", "live", "local", "prod", "production", "qa", "stage", "staging",
    "test", "uat", "dec", "decrypted", "enc", "env", "sops",
)  # fmt: skip
STAGE = _either(*_STAGES)
"""What a file is for, if there is one for each, as in ``secrets.prod.yaml``."""

_TEXTS = (
    ".b64", ".base64", ".cfg", ".cnf", ".conf", ".config", ".env", ".ini", ".json", ".properties",
    ".toml", ".txt", ".yaml", ".yml",
)  # fmt: skip
_DATA = (
    *_TEXTS, ".csv", ".db", ".doc", ".docx", ".ods", ".odt", ".plist", ".rtf", ".sqlite", ".tsv",
    ".xcconfig", ".xls", ".xlsx", ".7z", ".gpg", ".rar", ".tar", ".tar.gz", ".tgz", ".zip",
)  # fmt: skip
_TABLE = _either(".csv", ".txt", ".xlsx")
_NO_ENDING = ""

_MARKS = ("-", "_", ".", " ")
_FOR_STAGE = _either("", *(mark + stage for mark in "-_." for stage in _STAGES))
_FIRST = _either("", *(f"*{mark}" for mark in _MARKS))
_BETWEEN = _either("", *_MARKS)

_KEY = f"*{_either(*_KEY_USES, *_VENDORS)}{_BETWEEN}"
_SHORT_KEY = f"{_FIRST}{_either(*_SHORT_KEY_USES)}{_BETWEEN}"
_TOKEN = f"*{_either(*_TOKEN_USES, *_VENDORS)}{_BETWEEN}"

SECRET_WORDS = (
    SecretWord(_KEY, "key{,s}", _either(_NO_ENDING, ".xml", *_DATA)),
    SecretWord(_SHORT_KEY, "key{,s}", _either(_NO_ENDING, *_DATA)),
    SecretWord("*{-,_}", "key", _NO_ENDING),
    SecretWord("*", "key{,-,_}pair{,s}", _either(_NO_ENDING, *_TEXTS)),
    SecretWord(_TOKEN, "token{,s}", _either(_NO_ENDING, *_TEXTS)),
    SecretWord(_FIRST, "token{,s}", _either(_NO_ENDING, ".cache", ".env", ".ini", ".toml", ".txt")),
    SecretWord("", "token{,s}", _either(".db", ".json", ".pickle", ".yaml", ".yml")),
    SecretWord("*", "secret{,s}", _either(_NO_ENDING, ".xml", *_DATA)),
    SecretWord("*", "credential{,s}", _either(_NO_ENDING, *_DATA)),
    SecretWord(_FIRST, "cred{,s}", _either(_NO_ENDING, *_DATA)),
    SecretWord("*", "pass{code,phrase,word}{,s}", _either(_NO_ENDING, *_DATA)),
    SecretWord("*", "passwd{,s}", _either(*_DATA)),
    SecretWord("*{-,_,.}", "passwd", _NO_ENDING),
    SecretWord(_FIRST, "pass", _TABLE),
    SecretWord(_FIRST, "pw{,d,ds}", _TABLE),
    SecretWord(_FIRST, "login{,s}", _TABLE),
    SecretWord("*{mnemonic,recovery,seed}{,-,_}", "phrase", _either(_NO_ENDING, ".json", ".txt")),
    SecretWord(_FIRST, "mnemonic{,s}", _either(".json", ".txt")),
)
"""The kinds. None of them is a folder: those are named so for their sources."""

_HANDLINGS = (
    "change", "confirm", "create", "delete", "edit", "fetch", "forgot", "forgotten", "generate",
    "get", "lost", "remove", "request", "reset", "revoke", "rotate", "update", "validate", "verify",
)  # fmt: skip
_HANDLING = f"{_either(*_HANDLINGS)}{{,-,_,-*-,_*_}}"
_WORDS = ("credential", "key", "passphrase", "password", "secret", "token")
_DESCRIPTIONS = _either("", ".json", ".yaml", ".yml", ".txt", ".xml")

ORDINARY_WORDS = (
    # What is done with a secret, such as the script `rotate-api-key` or a request `get_token.json`.
    *(f"{_FIRST}{_HANDLING}{word}{{,s}}{_DESCRIPTIONS}" for word in _WORDS),
    "*pub{,lic}{-,_, }key",
    # Manifests that hold a secret encrypted, or name where it is.
    "*{external,sealed}{,-,_}secret{,s}.{json,yaml,yml}",
    # Lists of what a password must not be.
    "*{banned,breached,common,leaked,rejected,weak}*passwords.{csv,txt}",
    # What tests and tutorials call any text.
    "secret", "secret.txt",
    # Commands.
    "git-{credential,secret,secrets}", "helm-secrets",
)  # fmt: skip
"""Names that end in such a word, but hold no secrets."""


def list_word_patterns() -> tuple[str, ...]:
    """Return the patterns of files whose names end in a word for a secret."""
    return tuple(
        f"file:{kind.before}{kind.word}{_FOR_STAGE}{kind.endings}" for kind in SECRET_WORDS
    )
