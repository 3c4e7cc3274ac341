"""Redaction: secrets in a text are replaced by marks.

This is a safety net and not a guarantee: it knows the shapes in `SHAPES` and no others.

Patterns are RE2's, which never backtracks, so a search takes linear time for every text. Each has
exactly one capturing group, the secret; the text around the group distinguishes it from ordinary
text. Repetitions are long only if a shape needs it, because RE2 copies a repeated expression as
many times.
"""

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, Protocol

from abilities.helpers.text.codec import Encoding, byte_length
from abilities.helpers.text.pieces import Mark


class Match(Protocol):
    """A match of a pattern; group 0 is the whole match."""

    def span(self, group: int = 0) -> tuple[int, int]:
        """Return the start and the end of a group."""
        ...


class Pattern(Protocol):
    """A compiled pattern for bytes, used as `re.Pattern` is.

    Assertions such as word boundaries look at the bytes before ``pos`` and after ``endpos``.
    """

    def search(self, text: bytes, pos: int = 0, endpos: int = ...) -> Match | None:
        """Return the first match between ``pos`` and ``endpos``."""
        ...

    def match(self, text: bytes, pos: int = 0, endpos: int = ...) -> Match | None:
        """Return the match that begins at ``pos`` and ends at or before ``endpos``."""
        ...

    def fullmatch(self, text: bytes) -> Match | None:
        """Return the match of all bytes."""
        ...


class LinePattern(Pattern, Protocol):
    """A compiled pattern that matches within a line; ``programsize`` is its number of steps."""

    programsize: int


_MAX_MEMORY = 24 * 1024 * 1024
"""Bytes for the states of one pattern; a pattern that needs more becomes slow."""

_MAX_LINE_MEMORY = 8 * 1024 * 1024

_MAX_PROGRAM_MEMORY = 1024 * 1024
"""Bytes for about 10,000 steps; a larger pattern of a caller is refused."""


@functools.cache
def compile_pattern(pattern: str, *, captures: bool = True) -> Pattern:
    """Compile a pattern for bytes, which treats each byte as a character.

    Compiling takes some milliseconds, once. Without ``captures``, matches have no groups, and
    searches are faster. Searches release the interpreter lock.
    """
    engine = import_module("re2")  # has no types, and only reading files needs it

    options = engine.Options()
    options.encoding = engine.Options.Encoding.LATIN1
    options.never_capture = not captures
    options.max_mem = _MAX_MEMORY

    compiled: Pattern = engine.compile(pattern.encode(), options)
    return compiled


def compile_line_pattern(pattern: bytes) -> LinePattern | None:
    """Compile a caller's pattern for UTF-8; None if RE2 rejects it, or it is too large.

    It never matches a line feed, and ``^`` and ``$`` match at the ends of each line.
    """
    engine = import_module("re2")

    options = engine.Options()
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False  # mistakes in the pattern are the caller's

    try:
        # Alone first: with the prefix below, an invalid pattern may become a valid one.
        options.max_mem = _MAX_PROGRAM_MEMORY
        engine.compile(pattern, options)

        options.max_mem = _MAX_LINE_MEMORY
        compiled: LinePattern = engine.compile(b"(?m)" + pattern, options)
    except engine.error:
        return None

    return compiled


class Shape(NamedTuple):
    """The shape of a secret: its kind as readers see it, a pattern, and its documentation."""

    kind: str
    pattern: str
    source: str


# Between the lines of a key that is part of a program, a JSON or a YAML file.
_BETWEEN = r"""(?:\s|\\[nrt]|[\\"'+,;#*>|])"""
_KEY_LINE = "[A-Za-z0-9+/]{40}"
_BLOCK = (
    r"(-{4,5} ?BEGIN [A-Z0-9 ]{0,24}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    rf"{_BETWEEN}*(?:[A-Za-z][A-Za-z-]*: ?[^\n\\]*{_BETWEEN}+){{0,4}}"
    rf"{_KEY_LINE}(?:"
    r"""[A-Za-z0-9+/=\s\\"',;#*>|]*-{4,5} ?END [A-Z0-9 ]*-{4,5}"""
    rf"|(?:[A-Za-z0-9+/=]|{_BETWEEN}+[A-Za-z0-9+/]{{16}})*))"
)

# An assignment in a program, a shell, an INI, a YAML or a JSON file, up to the value.
_IS = r"""["']?\s{0,8}(?:=>|[:=])\s{0,8}["']?"""

SHAPES = (
    Shape("private key", _BLOCK, "RFC 7468, RFC 9580 section 6.2, openssh.com PROTOCOL.key"),
    Shape(
        "private key",
        r"Private-Lines: \d{1,4}\r?\n"
        r"((?:[A-Za-z0-9+/=]{4,64}\r?\n)*[A-Za-z0-9+/=]{4,64})(?:\r?\n|$)",
        "the.earth.li/~sgtatham/putty, appendix C: PPK file format",
    ),
    Shape(
        "private key",
        r"\b(AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58})\b",
        "age-encryption.org/v1",
    ),
    Shape(
        "private key",
        # "-----BEGIN … PRIVATE KEY" in Base64, in which the words begin at one of three offsets.
        r"\b(LS0tLS1CRUdJT[A-Za-z0-9+/]{1,16}(?:UFJJVkFURSBLR|BSSVZBVEUgS0|QUklWQVRFIEtF)"
        r"[A-Za-z0-9+/]{40}[A-Za-z0-9+/]*=*)",
        "kubernetes.io/docs: kubeconfig, client-key-data; Secrets, kubernetes.io/tls",
    ),
    Shape(
        "Ansible vault",
        r"\$ANSIBLE_VAULT;1\.[0-9];AES(?:256)?(?:;[\w.-]{1,64})?"
        r"\s+((?:[0-9a-f]{80}\s+)+[0-9a-f]{2,80})",
        "docs.ansible.com: Ansible Vault, format of files encrypted with it",
    ),
    Shape("private key", r"\bPrivateKey\s?=\s?([A-Za-z0-9+/]{43}=)", "wireguard.com, wg(8)"),
    Shape(
        "abilities token",
        r"\b(abl_[0-9a-f]{8}_[A-Za-z0-9_-]{43})",
        "docs/serving.md: tokens of `abilities serve`",
    ),
    Shape(
        "GitHub token",
        r"\b(gh[pousr]_[A-Za-z0-9_]{36,}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})",
        "docs.github.com: about authentication, GitHub's token formats",
    ),
    Shape(
        "GitLab token",
        r"\b(gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.=-]{20,})",
        "docs.gitlab.com/security/tokens: token prefixes",
    ),
    Shape(
        "AWS access key",
        r"\b((?:AKIA|ASIA)[A-Z2-7]{16})\b",
        "docs.aws.amazon.com/IAM: reference, unique identifiers",
    ),
    Shape(
        "AWS secret key",
        rf"(?i:secret_?access_?key|aws_?secret_?key){_IS}([A-Za-z0-9/+]{{40}})(?:[^A-Za-z0-9/+=]|$)",
        "docs.aws.amazon.com/cli: configuration and credential file settings",
    ),
    Shape(
        "AWS session token",
        rf"(?i:session_?token){_IS}([A-Za-z0-9/+]{{100}}[A-Za-z0-9/+=]*)",
        "docs.aws.amazon.com/cli: configuration and credential file settings",
    ),
    Shape(
        "Google API key",
        r"\b(AIza[A-Za-z0-9_-]{35})\b",
        "cloud.google.com/docs/authentication/api-keys",
    ),
    Shape(
        "Google OAuth secret",
        r"\b(GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{40,})",
        "developers.google.com/identity/protocols/oauth2",
    ),
    Shape(
        "Azure storage key",
        r"\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{43}(?:[A-Za-z0-9+/]{43}=)?=)",
        "learn.microsoft.com/azure/storage: configure connection strings",
    ),
    Shape(
        "Azure SAS signature",
        r"[?&;]sig=([A-Za-z0-9%+/]{43,80}(?:%3[Dd]|=))",
        "learn.microsoft.com/rest/api/storageservices: create a service SAS",
    ),
    Shape(
        "Azure client secret",
        r"\b([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})",
        "learn.microsoft.com/purview: Microsoft Entra client secret",
    ),
    Shape(
        "Slack token",
        r"\b(xox[abeoprs][.-][A-Za-z0-9.-]{20,}|xapp-\d-[A-Z0-9]{5,20}-\d{5,20}-[a-f0-9]{32,})",
        "docs.slack.dev/authentication/tokens",
    ),
    Shape(
        "Slack webhook",
        r"\bhooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{30,})",
        "docs.slack.dev/messaging: incoming webhooks",
    ),
    Shape(
        "Stripe key",
        r"\b([rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{32,}=*)",
        "docs.stripe.com/keys, docs.stripe.com/webhooks",
    ),
    Shape(
        "OpenAI key",
        r"\b(sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{32,})",
        "platform.openai.com/docs/api-reference/authentication",
    ),
    Shape(
        "Anthropic key",
        r"\b(sk-ant-[a-z0-9]{3,10}-[A-Za-z0-9_-]{32,})",
        "docs.anthropic.com: admin API, API keys",
    ),
    Shape("OpenRouter key", r"\b(sk-or-v1-[a-f0-9]{64})\b", "openrouter.ai/docs/api-keys"),
    Shape("Groq key", r"\b(gsk_[A-Za-z0-9]{48,})", "console.groq.com/docs"),
    Shape("xAI key", r"\b(xai-[A-Za-z0-9]{64,})", "docs.x.ai/docs"),
    Shape(
        "LangSmith key",
        r"\b(lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10})\b",
        "docs.langchain.com/langsmith: API keys",
    ),
    Shape(
        "Hugging Face token",
        r"\b((?:hf|api_org)_[A-Za-z0-9]{34,})",
        "huggingface.co/docs/hub/security-tokens",
    ),
    Shape("Replicate token", r"\b(r8_[A-Za-z0-9]{37})\b", "replicate.com/docs/topics/security"),
    Shape("npm token", r"\b(npm_[A-Za-z0-9]{36})\b", "npm Docs: about access tokens"),
    Shape("PyPI token", r"\b(pypi-AgE[A-Za-z0-9_-]{50,})", "PyPI, Help: API tokens"),
    Shape("RubyGems key", r"\b(rubygems_[a-f0-9]{48})\b", "RubyGems Guides: API key scopes"),
    Shape(
        "DigitalOcean token",
        r"\b(do[opr]_v1_[a-f0-9]{64})\b",
        "docs.digitalocean.com/reference/api/create-personal-access-token",
    ),
    Shape(
        "SendGrid key",
        r"\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})\b",
        "twilio.com/docs/sendgrid: API keys",
    ),
    Shape("Twilio key", r"\b(SK[a-f0-9]{32})\b", "twilio.com/docs/iam/api-keys"),
    Shape(
        "Twilio token",
        rf"(?i:auth_?token){_IS}([a-f0-9]{{32}})\b",
        "twilio.com/docs/iam/access-tokens",
    ),
    Shape(
        "Mailgun key",
        r"\b(key-[a-f0-9]{32}|[a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8})\b",
        "documentation.mailgun.com: authentication",
    ),
    Shape(
        "Shopify token",
        r"\b(shp(?:at|ca|pa|ss|tka)_[A-Fa-f0-9]{32})\b",
        "shopify.dev/docs/apps/build/authentication-authorization/access-tokens",
    ),
    Shape(
        "Square token",
        r"\b(sq0(?:atp|csp)-[A-Za-z0-9_-]{22,43})",
        "developer.squareup.com/docs/build-basics/access-tokens",
    ),
    Shape(
        "Square token",
        # Base64 is full of EAAA, so there must be nothing beside this one.
        r"""(?:^|[\s"'=:])(EAAA[A-Za-z0-9_-]{60})(?:$|[\s"',;])""",
        "developer.squareup.com/docs/build-basics/access-tokens",
    ),
    Shape(
        "Databricks token",
        r"\b(dapi[a-f0-9]{32}(?:-\d)?)\b",
        "docs.databricks.com/dev-tools/auth/pat",
    ),
    Shape(
        "Vault token",
        r"\b(hv[bsr]\.[A-Za-z0-9_-]{24,})",
        "developer.hashicorp.com/vault/docs/concepts/tokens",
    ),
    Shape(
        "Terraform token",
        r"\b([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,})",
        "developer.hashicorp.com/terraform/cloud-docs: API tokens",
    ),
    Shape(
        "Docker token",
        r"\b(dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,})",
        "docs.docker.com/security/access-tokens",
    ),
    Shape(
        "Docker login",
        r'"auth":\s{0,8}"([A-Za-z0-9+/]{20,}=*)"',
        "docs.docker.com/reference/cli/docker/login",
    ),
    Shape(
        "Discord token",
        # The first part is a snowflake, a decimal number, in Base64.
        r"\b((?:[MNO][DTjz][AEIMQUYcgk][wxyz0-5]){5,6}[A-Za-z0-9]{0,3}\.[\w-]{6}\.[\w-]{27,})",
        "docs.discord.com/developers/reference: authentication",
    ),
    Shape(
        "Discord webhook",
        r"\bdiscord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{17,20}/([\w-]{60,})",
        "docs.discord.com/developers/resources/webhook",
    ),
    Shape(
        "Telegram token",
        r"\b(\d{6,12}:A[\w-]{34})\b",
        "core.telegram.org/bots/api: authorizing your bot",
    ),
    Shape("Notion token", r"\b(ntn_[A-Za-z0-9]{40,})", "developers.notion.com/docs/authorization"),
    Shape("Linear key", r"\b(lin_api_[A-Za-z0-9]{40,})", "linear.app/developers"),
    Shape(
        "Atlassian token",
        r"\b(ATATT3[A-Za-z0-9_=-]{100,})",
        "support.atlassian.com: manage API tokens for your account",
    ),
    Shape(
        "Grafana token",
        r"\b(glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}|glc_eyJ[A-Za-z0-9+/]{40,}=*)",
        "grafana.com/docs: service accounts, access policies",
    ),
    Shape("Postman key", r"\b(PMAK-[a-f0-9]{24}-[a-f0-9]{34})\b", "learning.postman.com: API keys"),
    Shape("Airtable token", r"\b(pat[A-Za-z0-9]{14}\.[a-f0-9]{64})\b", "airtable.com/developers"),
    Shape("Supabase token", r"\b(sb[ps]_(?:secret_)?[A-Za-z0-9_-]{31,})", "supabase.com/docs"),
    Shape(
        "JSON Web Token",
        r"\b(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10}[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*)*)",
        "RFC 7519, RFC 7515",
    ),
    Shape(
        "password",
        r"""://[^\s:/@"'<>`{}\[\]]*:([A-Za-z0-9._~!&*+;=:$^#?%-]{6,})@""",
        "RFC 3986, section 3.2.1: user information",
    ),
)
"""All shapes of secrets. If two match at one place, the first counts."""

REACH = 16 * 1024
"""The longest secret in characters: as many around a place decide whether it is in a secret.

A longer key block is redacted up to here, and its rest is shown.
"""

_MIN_VARIETY = 6
"""The different characters in a token; one with fewer is an example, because it is not random."""

_ANY_SHAPE = "|".join(shape.pattern for shape in SHAPES)

_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))  # in UTF-8: all but the first of a character

# Placeholders in documents, such as `xxxxxxxx` and `AKIA…EXAMPLE`.
_PLACEHOLDER = (
    r"(?i:x{5}|0{7}|_{5}|\.{3}|\*{3}|1234567|abcdefg|example|placeholder|redacted"
    r"|your[_-]|change_?me|insert_?)"
)

# Passwords in documents: a few letters, a number, a variable, or a word for a password.
_WEAK_LOGIN = (
    r"[^A-Z0-9]{0,15}|[^a-z0-9]{0,15}|\d*|[$%].*"
    r"|(?i:(?:my|the|your|user|db|database|root|admin|test)?[._-]?"
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|credential|token)s?[._-]?(?:here)?\d{0,4})"
)


class Secret(NamedTuple):
    """A secret in a text: from ``start`` to ``end`` (exclusive), in characters."""

    start: int
    end: int
    kind: str


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets in a text, in order; no two of them overlap.

    The time is linear in the length of the text.

    >>> find_secrets("token: ghp_" + "A1b2C3d4E5" * 4)
    [Secret(start=7, end=51, kind='GitHub token')]
    """
    # RE2 searches bytes: it would encode a string, and map every position.
    raw = text.encode("utf-8", "surrogatepass")
    scanner = compile_pattern(_ANY_SHAPE, captures=False)  # finding alone is faster
    secrets: list[Secret] = []
    position = chars = counted = 0

    while (found := scanner.search(raw, position)) is not None:
        beginning, position = found.span()
        for shape in SHAPES:
            pattern = compile_pattern(shape.pattern)
            match = pattern.match(raw, beginning, beginning + REACH)
            if match is not None:
                break
        else:
            continue  # longer than any secret may be

        position = match.span()[1]
        start, end = match.span(1)
        if _is_placeholder(shape.kind, raw[start:end]):
            continue

        first = chars + _count_chars(raw[counted:start])
        chars, counted = first + _count_chars(raw[start:end]), end
        secrets.append(Secret(first, chars, shape.kind))

    return secrets


def format_mark(kind: str) -> str:
    """Return the mark that replaces a secret."""
    return f"[secret: {kind}]"


def redact(
    text: str, secrets: Sequence[Secret], encoding: Encoding
) -> tuple[str, tuple[Mark, ...]]:
    """Replace each secret in a decoded text by a mark; return the new text and the marks."""
    parts: list[str] = []
    marks: list[Mark] = []
    length = position = 0

    for secret in secrets:
        before = text[position : secret.start]
        shown = format_mark(secret.kind)
        start = length + len(before)
        length = start + len(shown)
        size = byte_length(text[secret.start : secret.end], encoding)

        parts += (before, shown)
        marks.append(Mark(start, length, size))
        position = secret.end

    parts.append(text[position:])
    return "".join(parts), tuple(marks)


def _count_chars(raw: bytes) -> int:
    """Return the number of characters in UTF-8, of which the last may be incomplete."""
    if raw.isascii():
        return len(raw)

    return len(raw.translate(None, _CONTINUATION_BYTES))


def _is_placeholder(kind: str, secret: bytes) -> bool:
    """Return whether a text with the shape of a secret is only an example."""
    if kind == "private key":
        return False

    if compile_pattern(_PLACEHOLDER).search(secret) is not None:
        return True

    if kind == "password":
        return compile_pattern(_WEAK_LOGIN).fullmatch(secret) is not None

    return len(set(secret)) < _MIN_VARIETY
