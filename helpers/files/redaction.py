"""Redaction: secrets in a text are replaced by marks.

This is a safety net and not a guarantee: it knows the shapes in `SHAPES` and no others.

Patterns are RE2's, which never backtracks, so a search takes linear time for every text. Each has
exactly one capturing group, the secret; the text around the group distinguishes it from ordinary
text. Repetitions are long only if a shape needs it, because RE2 copies a repeated expression as
many times.
"""

import functools
import re
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from abilities.helpers.text import Encoding, Mark, byte_length

_MAX_MEMORY = 24 * 1024 * 1024
"""Bytes for the states of one pattern; a pattern that needs more becomes slow."""

_MAX_LINE_MEMORY = 8 * 1024 * 1024

_MAX_PROGRAM_MEMORY = 1024 * 1024
"""Bytes for about 10,000 steps; a larger pattern of a caller is refused."""


@functools.cache
def compile_pattern(pattern: str, *, captures: bool = True) -> re.Pattern[bytes]:
    """Compile a pattern for bytes with RE2, which treats each byte as a character.

    The result is used as a pattern of `re` is.

    Compiling takes some milliseconds, once. Without ``captures``, matches have no groups, and
    searches are faster. Searches release the interpreter lock.
    """
    engine = import_module("re2")  # has no types, and only reading files needs it

    options = engine.Options()
    options.encoding = engine.Options.Encoding.LATIN1
    options.never_capture = not captures
    options.max_mem = _MAX_MEMORY

    compiled: re.Pattern[bytes] = engine.compile(pattern.encode(), options)
    return compiled


def compile_line_pattern(pattern: bytes) -> tuple[re.Pattern[bytes], int]:
    """Compile a caller's pattern for UTF-8, and return it with the number of its steps.

    It never matches a line feed, and ``^`` and ``$`` match at the ends of each line. Raises
    ValueError if RE2 rejects it, or it is too large.
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
        compiled = engine.compile(b"(?m)" + pattern, options)
    except engine.error:
        raise ValueError("not a pattern of RE2, or too large") from None

    return compiled, compiled.programsize


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
    ("private key", _BLOCK),  # RFC 7468, RFC 9580 section 6.2, openssh.com PROTOCOL.key
    # the.earth.li/~sgtatham/putty, appendix C: PPK file format
    (
        "private key",
        r"Private-Lines: \d{1,4}\r?\n"
        r"((?:[A-Za-z0-9+/=]{4,64}\r?\n)*[A-Za-z0-9+/=]{4,64})(?:\r?\n|$)",
    ),
    # age-encryption.org/v1
    ("private key", r"\b(AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58})\b"),
    # "-----BEGIN … PRIVATE KEY" in Base64, in which the words begin at one of three offsets.
    # kubernetes.io/docs: kubeconfig, client-key-data; Secrets, kubernetes.io/tls
    (
        "private key",
        r"\b(LS0tLS1CRUdJT[A-Za-z0-9+/]{1,16}(?:UFJJVkFURSBLR|BSSVZBVEUgS0|QUklWQVRFIEtF)"
        r"[A-Za-z0-9+/]{40}[A-Za-z0-9+/]*=*)",
    ),
    # docs.ansible.com: Ansible Vault, format of files encrypted with it
    (
        "Ansible vault",
        r"\$ANSIBLE_VAULT;1\.[0-9];AES(?:256)?(?:;[\w.-]{1,64})?"
        r"\s+((?:[0-9a-f]{80}\s+)+[0-9a-f]{2,80})",
    ),
    ("private key", r"\bPrivateKey\s?=\s?([A-Za-z0-9+/]{43}=)"),  # wireguard.com, wg(8)
    # docs/serving.md: tokens of `abilities serve`
    ("abilities token", r"\b(abl_[0-9a-f]{8}_[A-Za-z0-9_-]{43})"),
    # docs.github.com: about authentication, GitHub's token formats
    ("GitHub token", r"\b(gh[pousr]_[A-Za-z0-9_]{36,}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})"),
    # docs.gitlab.com/security/tokens: token prefixes
    (
        "GitLab token",
        r"\b(gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.=-]{20,})",
    ),
    # docs.aws.amazon.com/IAM: reference, unique identifiers
    ("AWS access key", r"\b((?:AKIA|ASIA)[A-Z2-7]{16})\b"),
    # docs.aws.amazon.com/cli: configuration and credential file settings
    (
        "AWS secret key",
        rf"(?i:secret_?access_?key|aws_?secret_?key){_IS}([A-Za-z0-9/+]{{40}})(?:[^A-Za-z0-9/+=]|$)",
    ),
    # docs.aws.amazon.com/cli: configuration and credential file settings
    ("AWS session token", rf"(?i:session_?token){_IS}([A-Za-z0-9/+]{{100}}[A-Za-z0-9/+=]*)"),
    # cloud.google.com/docs/authentication/api-keys
    ("Google API key", r"\b(AIza[A-Za-z0-9_-]{35})\b"),
    # developers.google.com/identity/protocols/oauth2
    (
        "Google OAuth secret",
        r"\b(GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{40,})",
    ),
    # learn.microsoft.com/azure/storage: configure connection strings
    (
        "Azure storage key",
        r"\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{43}(?:[A-Za-z0-9+/]{43}=)?=)",
    ),
    # learn.microsoft.com/rest/api/storageservices: create a service SAS
    ("Azure SAS signature", r"[?&;]sig=([A-Za-z0-9%+/]{43,80}(?:%3[Dd]|=))"),
    # learn.microsoft.com/purview: Microsoft Entra client secret
    ("Azure client secret", r"\b([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})"),
    # docs.slack.dev/authentication/tokens
    (
        "Slack token",
        r"\b(xox[abeoprs][.-][A-Za-z0-9.-]{20,}|xapp-\d-[A-Z0-9]{5,20}-\d{5,20}-[a-f0-9]{32,})",
    ),
    # docs.slack.dev/messaging: incoming webhooks
    (
        "Slack webhook",
        r"\bhooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{30,})",
    ),
    # docs.stripe.com/keys, docs.stripe.com/webhooks
    ("Stripe key", r"\b([rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{32,}=*)"),
    # platform.openai.com/docs/api-reference/authentication
    ("OpenAI key", r"\b(sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{32,})"),
    # docs.anthropic.com: admin API, API keys
    ("Anthropic key", r"\b(sk-ant-[a-z0-9]{3,10}-[A-Za-z0-9_-]{32,})"),
    ("OpenRouter key", r"\b(sk-or-v1-[a-f0-9]{64})\b"),  # openrouter.ai/docs/api-keys
    ("Groq key", r"\b(gsk_[A-Za-z0-9]{48,})"),  # console.groq.com/docs
    ("xAI key", r"\b(xai-[A-Za-z0-9]{64,})"),  # docs.x.ai/docs
    # docs.langchain.com/langsmith: API keys
    ("LangSmith key", r"\b(lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10})\b"),
    # huggingface.co/docs/hub/security-tokens
    ("Hugging Face token", r"\b((?:hf|api_org)_[A-Za-z0-9]{34,})"),
    ("Replicate token", r"\b(r8_[A-Za-z0-9]{37})\b"),  # replicate.com/docs/topics/security
    ("npm token", r"\b(npm_[A-Za-z0-9]{36})\b"),  # npm Docs: about access tokens
    ("PyPI token", r"\b(pypi-AgE[A-Za-z0-9_-]{50,})"),  # PyPI, Help: API tokens
    ("RubyGems key", r"\b(rubygems_[a-f0-9]{48})\b"),  # RubyGems Guides: API key scopes
    # docs.digitalocean.com/reference/api/create-personal-access-token
    ("DigitalOcean token", r"\b(do[opr]_v1_[a-f0-9]{64})\b"),
    # twilio.com/docs/sendgrid: API keys
    ("SendGrid key", r"\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})\b"),
    ("Twilio key", r"\b(SK[a-f0-9]{32})\b"),  # twilio.com/docs/iam/api-keys
    # twilio.com/docs/iam/access-tokens
    ("Twilio token", rf"(?i:auth_?token){_IS}([a-f0-9]{{32}})\b"),
    # documentation.mailgun.com: authentication
    ("Mailgun key", r"\b(key-[a-f0-9]{32}|[a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8})\b"),
    # shopify.dev/docs/apps/build/authentication-authorization/access-tokens
    ("Shopify token", r"\b(shp(?:at|ca|pa|ss|tka)_[A-Fa-f0-9]{32})\b"),
    # developer.squareup.com/docs/build-basics/access-tokens
    ("Square token", r"\b(sq0(?:atp|csp)-[A-Za-z0-9_-]{22,43})"),
    # Base64 is full of EAAA, so there must be nothing beside this one.
    # developer.squareup.com/docs/build-basics/access-tokens
    ("Square token", r"""(?:^|[\s"'=:])(EAAA[A-Za-z0-9_-]{60})(?:$|[\s"',;])"""),
    # docs.databricks.com/dev-tools/auth/pat
    ("Databricks token", r"\b(dapi[a-f0-9]{32}(?:-\d)?)\b"),
    # developer.hashicorp.com/vault/docs/concepts/tokens
    ("Vault token", r"\b(hv[bsr]\.[A-Za-z0-9_-]{24,})"),
    # developer.hashicorp.com/terraform/cloud-docs: API tokens
    ("Terraform token", r"\b([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,})"),
    # docs.docker.com/security/access-tokens
    ("Docker token", r"\b(dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,})"),
    # docs.docker.com/reference/cli/docker/login
    ("Docker login", r'"auth":\s{0,8}"([A-Za-z0-9+/]{20,}=*)"'),
    # The first part is a snowflake, a decimal number, in Base64.
    # docs.discord.com/developers/reference: authentication
    (
        "Discord token",
        r"\b((?:[MNO][DTjz][AEIMQUYcgk][wxyz0-5]){5,6}[A-Za-z0-9]{0,3}\.[\w-]{6}\.[\w-]{27,})",
    ),
    # docs.discord.com/developers/resources/webhook
    (
        "Discord webhook",
        r"\bdiscord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{17,20}/([\w-]{60,})",
    ),
    # core.telegram.org/bots/api: authorizing your bot
    ("Telegram token", r"\b(\d{6,12}:A[\w-]{34})\b"),
    ("Notion token", r"\b(ntn_[A-Za-z0-9]{40,})"),  # developers.notion.com/docs/authorization
    ("Linear key", r"\b(lin_api_[A-Za-z0-9]{40,})"),  # linear.app/developers
    # support.atlassian.com: manage API tokens for your account
    ("Atlassian token", r"\b(ATATT3[A-Za-z0-9_=-]{100,})"),
    # grafana.com/docs: service accounts, access policies
    ("Grafana token", r"\b(glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}|glc_eyJ[A-Za-z0-9+/]{40,}=*)"),
    ("Postman key", r"\b(PMAK-[a-f0-9]{24}-[a-f0-9]{34})\b"),  # learning.postman.com: API keys
    ("Airtable token", r"\b(pat[A-Za-z0-9]{14}\.[a-f0-9]{64})\b"),  # airtable.com/developers
    ("Supabase token", r"\b(sb[ps]_(?:secret_)?[A-Za-z0-9_-]{31,})"),  # supabase.com/docs
    # RFC 7519, RFC 7515
    (
        "JSON Web Token",
        r"\b(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10}[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*)*)",
    ),
    # RFC 3986, section 3.2.1: user information
    ("password", r"""://[^\s:/@"'<>`{}\[\]]*:([A-Za-z0-9._~!&*+;=:$^#?%-]{6,})@"""),
)
"""All shapes of secrets: the kind as readers see it, and a pattern. The comments name the sources.

If two match at one place, the first counts.
"""

REACH = 16 * 1024
"""The longest secret in characters: as many around a place decide whether it is in a secret.

A longer key block is redacted up to here, and its rest is shown.
"""

_MIN_VARIETY = 6
"""The different characters in a token; one with fewer is an example, because it is not random."""

_ANY_SHAPE = "|".join(pattern for _, pattern in SHAPES)

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
        for kind, pattern in SHAPES:
            match = compile_pattern(pattern).match(raw, beginning, beginning + REACH)
            if match is None:
                continue

            position = match.span()[1]
            start, end = match.span(1)
            if not _is_placeholder(kind, raw[start:end]):
                first = chars + _count_chars(raw[counted:start])
                chars, counted = first + _count_chars(raw[start:end]), end
                secrets.append(Secret(first, chars, kind))
            break  # without any match, it is longer than a secret may be

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
