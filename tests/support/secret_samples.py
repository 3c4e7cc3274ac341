"""Secrets that nobody ever used: assembled at run time, in the shapes that vendors document.

Nothing in this file looks like a secret itself, so that scanners of repositories stay silent.
"""

import string
from base64 import b64encode
from random import Random
from typing import NamedTuple

LETTERS = string.ascii_letters
WORD = string.ascii_letters + string.digits
URL_SAFE = WORD + "_-"
BASE64 = WORD + "+/"
HEX = "0123456789abcdef"
BASE32 = string.ascii_uppercase + "234567"

KEY_KINDS = ("RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "")


class Sample(NamedTuple):
    """A text with one secret in it, and the kind of the secret."""

    kind: str
    before: str
    secret: str
    after: str

    @property
    def text(self) -> str:
        return self.before + self.secret + self.after

    @property
    def redacted(self) -> str:
        return f"{self.before}[secret: {self.kind}]{self.after}"


def draw(random: Random, alphabet: str, length: int) -> str:
    return "".join(random.choices(alphabet, k=length))


def draw_block(random: Random, kind: str, lines: int, *, newline: str = "\n") -> str:
    header = f"{kind}PRIVATE KEY"
    if kind.startswith("PGP"):
        header += " BLOCK"

    body = [draw(random, BASE64, 64) for _ in range(lines)]
    body.append(draw(random, BASE64, 22) + "==")
    if kind == "RSA ":
        body[:0] = ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0A1B2C3D", ""]
    elif kind.startswith("PGP"):
        body[:0] = ["Comment: of Jürgen", ""]

    dashes = "-" * 5
    return newline.join([f"{dashes}BEGIN {header}{dashes}", *body, f"{dashes}END {header}{dashes}"])


def encode_block(random: Random, kind: str) -> str:
    return b64encode(draw_block(random, kind, 12).encode()).decode()


def list_samples(random: Random) -> list[Sample]:
    def word(length: int) -> str:
        return draw(random, WORD, length)

    def url_safe(length: int) -> str:
        return draw(random, URL_SAFE, length - 1) + "a"

    def hexadecimal(length: int) -> str:
        return draw(random, HEX, length)

    def base64(length: int) -> str:
        return draw(random, BASE64, length)

    tokens: list[tuple[str, str]] = [
        ("abilities token", "abl" + "_" + hexadecimal(8) + "_" + url_safe(43)),
        *[("GitHub token", f"gh{letter}_" + word(36)) for letter in "pousr"],
        ("GitHub token", "github_" + "pat_" + word(22) + "_" + word(59)),
        *[("GitLab token", f"gl{name}-" + url_safe(20)) for name in ("pat", "dt", "rt", "ptt")],
        ("AWS access key", "AK" + "IA" + draw(random, BASE32, 16)),
        ("AWS access key", "AS" + "IA" + draw(random, BASE32, 16)),
        ("Google API key", "AI" + "za" + url_safe(35)),
        ("Google OAuth secret", "GOCS" + "PX-" + url_safe(28)),
        ("Google OAuth secret", "ya29" + "." + url_safe(120)),
        ("Azure client secret", word(3) + "8Q" + "~" + word(34)),
        ("Slack token", "xox" + "b-" + "-".join(["2" * 6 + "31415", "271828182845", word(24)])),
        ("Slack token", "xox" + "p-" + "-".join(["27182818284", "27182818284", hexadecimal(32)])),
        ("Slack token", "xapp" + "-1-A0" + word(9).upper() + "-27182818284-" + hexadecimal(64)),
        ("Stripe key", "sk" + "_live_" + word(24)),
        ("Stripe key", "rk" + "_test_" + word(99)),
        ("Stripe key", "whsec" + "_" + word(32)),
        ("OpenAI key", "sk" + "-proj-" + url_safe(124)),
        ("OpenAI key", "sk" + "-" + word(20) + "T3Blbk" + "FJ" + word(20)),
        ("Anthropic key", "sk" + "-ant-api03-" + url_safe(93) + "AA"),
        ("OpenRouter key", "sk" + "-or-v1-" + hexadecimal(64)),
        ("Groq key", "gsk" + "_" + word(52)),
        ("xAI key", "xai" + "-" + word(80)),
        ("LangSmith key", "lsv2" + "_pt_" + hexadecimal(32) + "_" + hexadecimal(10)),
        ("Hugging Face token", "hf" + "_" + draw(random, LETTERS, 34)),
        ("Replicate token", "r8" + "_" + word(37)),
        ("npm token", "npm" + "_" + word(36)),
        ("PyPI token", "pypi" + "-AgE" + "IcHlwaS5vcmc" + url_safe(150)),
        ("RubyGems key", "rubygems" + "_" + hexadecimal(48)),
        *[("DigitalOcean token", f"do{kind}_v1_" + hexadecimal(64)) for kind in "opr"],
        ("SendGrid key", "S" + "G." + url_safe(22) + "." + url_safe(43)),
        ("Twilio key", "S" + "K" + hexadecimal(32)),
        ("Mailgun key", "ke" + "y-" + hexadecimal(32)),
        ("Mailgun key", hexadecimal(32) + "-" + hexadecimal(8) + "-" + hexadecimal(8)),
        *[("Shopify token", f"shp{kind}_" + hexadecimal(32)) for kind in ("at", "ca", "pa", "ss")],
        ("Square token", "sq0" + "csp-" + url_safe(43)),
        ("Square token", "EA" + "AA" + url_safe(60)),
        ("Databricks token", "da" + "pi" + hexadecimal(32) + "-2"),
        ("Vault token", "hv" + "s." + url_safe(90)),
        ("Terraform token", word(14) + ".atlas" + "v1." + url_safe(67)),
        ("Docker token", "dckr" + "_pat_" + url_safe(27)),
        ("Discord token", "MTA4" * 6 + "Mg" + "." + url_safe(6) + "." + url_safe(38)),
        ("Telegram token", "110201543" + ":AA" + url_safe(33)),
        ("Notion token", "ntn" + "_" + word(46)),
        ("Linear key", "lin" + "_api_" + word(40)),
        ("Atlassian token", "ATA" + "TT3" + url_safe(186)),
        ("Grafana token", "gl" + "sa_" + word(32) + "_" + hexadecimal(8)),
        ("Postman key", "PM" + "AK-" + hexadecimal(24) + "-" + hexadecimal(34)),
        ("Airtable token", "pa" + "t" + word(14) + "." + hexadecimal(64)),
        ("Supabase token", "sb" + "p_" + hexadecimal(40)),
        ("JSON Web Token", f"ey{'J'}{word(33)}.ey{'J'}{url_safe(180)}.{url_safe(43)}"),
        ("private key", "AGE-SECRET-" + "KEY-1" + draw(random, "QPZRY9X8GF2TVDW0S3JN54K", 58)),
    ]
    samples = [Sample(kind, f'{kind} = "', secret, '" # of mine\n') for kind, secret in tokens]

    vault = "\n  ".join([*(hexadecimal(80) for _ in range(5)), hexadecimal(58)])
    placed: list[tuple[str, str, str, str]] = [
        ("AWS secret key", "[default]\naws_secret_access_key = ", base64(40), "\nregion = x\n"),
        ("AWS secret key", '{"SecretAccess' + 'Key": "', base64(40), '", "Token": 1}'),
        ("AWS session token", "AWS_SESSION_TOKEN=", base64(300), "\n"),
        ("Azure storage key", "AccountName=a;AccountKey=", base64(86) + "==", ";Suffix=x"),
        ("Azure storage key", "Endpoint=sb://x/;SharedAccessKey=", base64(43) + "=", "\n"),
        ("Azure SAS signature", "https://a.b/c?sv=2022&sig=", word(43) + "%3D", "&se=1"),
        (
            "Slack webhook",
            "https://hooks.slack.com/services/",
            f"T{word(9)}/B{word(9)}/{word(24)}",
            " ",
        ),
        ("Discord webhook", f"https://discord.com/api/webhooks/{'31' * 9}/", url_safe(68), "\n"),
        ("Twilio token", "TWILIO_AUTH_TOKEN=", hexadecimal(32), "\n"),
        ("Docker login", '{"auths": {"x": {"auth": "', base64(38) + "==", '"}}}'),
        ("password", "postgresql://app:", word(9) + "7x", "@db.internal:5432/main"),
        ("password", "DATABASE_URL=mysql://root:", word(8) + "%21Z", "@10.0.0.1/x\n"),
        ("private key", "client-key-data: ", encode_block(random, "RSA "), "\nname: x\n"),
        ("private key", "  tls.key: ", encode_block(random, ""), "\n"),
        ("private key", 'k="', encode_block(random, "OPENSSH "), '"\n'),
        ("Ansible vault", "a: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  ", vault, "\nb: 1\n"),
        ("private key", "[Interface]\nPrivateKey = ", base64(43) + "=", "\nListenPort = 1\n"),
    ]
    samples += [Sample(*parts) for parts in placed]
    samples += _list_blocks(random)
    return samples


def _list_blocks(random: Random) -> list[Sample]:
    samples = [
        Sample("private key", "# mine\n", draw_block(random, kind, 9), "\n") for kind in KEY_KINDS
    ]
    samples += [
        Sample("private key", "", draw_block(random, "PGP ", 40), "\nmore"),
        Sample("private key", "", draw_block(random, "RSA ", 12, newline="\r\n"), "\r\n"),
        Sample("private key", '{"key": "', draw_block(random, "", 26, newline="\\n"), '\\n"}'),
        Sample(
            "private key", "key: |\n  ", draw_block(random, "EC ", 3, newline="\n  "), "\nx: 1\n"
        ),
        Sample("private key", 'k = ("', draw_block(random, "", 26, newline='\\n"\n  "'), '\\n")'),
    ]

    lines = "\n".join(draw(random, BASE64, 64) for _ in range(14))
    samples.append(
        Sample("private key", "Comment: a\nPrivate-Lines: 14\n", lines, "\nPrivate-MAC: 0123\n")
    )
    return samples
