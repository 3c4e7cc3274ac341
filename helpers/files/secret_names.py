"""The names under which programs keep secrets, each with the manual that documents it.

Patterns are those of `DenyList`. A name here is denied in every folder, and so is everything
beneath a folder with that name, unless the pattern begins with ``file:``. So a name that is also
common for sources, such as ``credentials`` or ``secrets.py``, is not here; its folder is, if only
that distinguishes it, such as ``.aws``. Names that end in a word such as ``password`` are in
`SECRET_WORDS`.
"""


def _either(*words: str) -> str:
    """Return a pattern that matches any of the words.

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
"""The stage that a file is for, as in ``secrets.prod.yaml``."""

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
    (_KEY, "key{,s}", _either(_NO_ENDING, ".xml", *_DATA)),
    (_SHORT_KEY, "key{,s}", _either(_NO_ENDING, *_DATA)),
    ("*{-,_}", "key", _NO_ENDING),
    ("*", "key{,-,_}pair{,s}", _either(_NO_ENDING, *_TEXTS)),
    (_TOKEN, "token{,s}", _either(_NO_ENDING, *_TEXTS)),
    (_FIRST, "token{,s}", _either(_NO_ENDING, ".cache", ".env", ".ini", ".toml", ".txt")),
    ("", "token{,s}", _either(".db", ".json", ".pickle", ".yaml", ".yml")),
    ("*", "secret{,s}", _either(_NO_ENDING, ".xml", *_DATA)),
    ("*", "credential{,s}", _either(_NO_ENDING, *_DATA)),
    (_FIRST, "cred{,s}", _either(_NO_ENDING, *_DATA)),
    ("*", "pass{code,phrase,word}{,s}", _either(_NO_ENDING, *_DATA)),
    ("*", "passwd{,s}", _either(*_DATA)),
    ("*{-,_,.}", "passwd", _NO_ENDING),
    (_FIRST, "pass", _TABLE),
    (_FIRST, "pw{,d,ds}", _TABLE),
    (_FIRST, "login{,s}", _TABLE),
    ("*{mnemonic,recovery,seed}{,-,_}", "phrase", _either(_NO_ENDING, ".json", ".txt")),
    (_FIRST, "mnemonic{,s}", _either(".json", ".txt")),
)
"""Words for secrets in the names of files: what is before each, the word, and the file's endings.

Folders with such names usually contain sources.
"""

_HANDLINGS = (
    "change", "confirm", "create", "delete", "edit", "fetch", "forgot", "forgotten", "generate",
    "get", "lost", "remove", "request", "reset", "revoke", "rotate", "update", "validate", "verify",
)  # fmt: skip
_HANDLING = f"{_either(*_HANDLINGS)}{{,-,_,-*-,_*_}}"
_WORDS = ("credential", "key", "passphrase", "password", "secret", "token")
_DESCRIPTIONS = _either("", ".json", ".yaml", ".yml", ".txt", ".xml")

ORDINARY_WORDS = (
    # Actions on a secret, such as the script `rotate-api-key` or a request `get_token.json`.
    *(f"{_FIRST}{_HANDLING}{word}{{,s}}{_DESCRIPTIONS}" for word in _WORDS),
    "*pub{,lic}{-,_, }key",
    # Manifests with an encrypted secret, or with the place of a secret.
    "*{external,sealed}{,-,_}secret{,s}.{json,yaml,yml}",
    # Lists of forbidden passwords.
    "*{banned,breached,common,leaked,rejected,weak}*passwords.{csv,txt}",
    # Names of any text in tests and tutorials.
    "secret", "secret.txt",
    # Commands.
    "git-{credential,secret,secrets}", "helm-secrets",
)  # fmt: skip
"""Names that end in such a word, but of files without secrets."""


def list_word_patterns() -> tuple[str, ...]:
    """Return the patterns of files whose names end in a word for a secret."""
    words = SECRET_WORDS
    return tuple(f"file:{before}{word}{_FOR_STAGE}{endings}" for before, word, endings in words)


_KEY_FORMS = ("der", "jks", "key", "keystore", "p12", "p8", "pem", "pfx", "ppk")

SECRET_NAMES: tuple[str, ...] = (
    # Our own store, settings and tokens
    ".abilities/**", "*.token",
    # dotenv, Docker Compose: env_file; direnv(1); Cloudflare Workers: local development
    ".env", ".env*", "*.env", "file:env", "file:dotenv", "file:dot_env", f"*.env.{STAGE}",
    f"*.env-{STAGE}", f"*.env_{STAGE}", f"file:env.{STAGE}", f"file:env-{STAGE}",
    f"file:env_{STAGE}", "*.env.txt", ".flaskenv", ".dev.vars", ".dev.vars.*",
    # Private keys: openssl(1), ssh-keygen(1), PuTTY, keytool, Apple Developer, .NET sn.exe
    "*.pem", "*.key", "*.p12", "*.p8", "*.pfx", "*.pkcs12", "*.ppk", "*.pvk", "*.snk", "*.der",
    "*.pk8", "*.pkcs8", "file:*.priv", "file:*.private", "*.jks", "*.jceks", "*.bks", "*.bcfks",
    "*.keystore", "*.truststore", "*.keytab",
    *(f"*.{form}.{{asc,b64,base64,enc,gpg,hex,txt}}" for form in _KEY_FORMS),
    "file:id_{bitbucket,deploy,github,gitlab,personal,work}",
    "file:ssh/{authorized_keys,config,identity,known_hosts}", "key.json", "file:keyfile",
    "keyfile.{json,txt}", "*.sth", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_xmss*",
    "file:*-rsa", "file:*_rsa", "file:*-dsa", "file:*_dsa", "file:*-ecdsa", "file:*_ecdsa",
    "file:*-ed25519", "file:*_ed25519", "krb5cc_*", "*private*.gpg", "*private*.jwk",
    "*private*.pgp", "*private*.pkcs7", "*secret*.gpg", "*secret*.jwk", "*secret*.pgp",
    "*{jwk,jwks}*private*.json", "*private*{jwk,jwks}.json", "keystore.json", "keystore-*.json",
    "*keystore*.properties", "key.properties", "*signing*.properties", "*.mobileprovision",
    "*.provisionprofile", "file:*.pass", "file:rootpw", "rootp{ass,w,wd}.txt",
    # OpenPGP: gpg(1); files of exported keys
    ".gnupg/**", "secring.*", "*private*.asc", "*secret*.asc", "private-keys-v1.d/**",
    # Logins of network tools: netrc(5), curl(1), wget(1), ssh(1), Emacs auth-source
    ".ssh/**", ".putty/**", ".netrc", "_netrc", "file:netrc", "dot_netrc", ".netrc-*", ".netrc_*",
    ".netrc.*", ".authinfo", "file:authinfo", ".curlrc", "_curlrc", ".wgetrc", ".rhosts", ".shosts",
    ".Xauthority", ".ICEauthority", ".google_authenticator", ".vnc/**", ".smbcredentials",
    ".cifscredentials", ".lftp/**", ".ncftp/**", ".ftpconfig", ".remote-sync.json",
    "sftp-config.json", "sftp.json", "filezilla.xml", "sitemanager.xml", "recentservers.xml",
    ".filezilla/**", "WinSCP.ini", "confCons.xml", "*.rdg", "*.rdp", "*.remmina", "WebServers.xml",
    "proftpdpasswd",
    # git(1), gitcredentials(7); command lines of GitHub, GitLab, Gitea; Subversion, Mercurial
    ".git/**", ".git-credentials*", ".git-credential-cache/**", ".config/git/credentials",
    ".gitcookies", ".config/gh/hosts.yml", ".config/hub", ".config/glab-cli/**", ".config/tea/**",
    ".gitlab-runner/config.toml", ".subversion/auth/**",
    "svn.{simple,username,ssl.client-passphrase}/**", ".cvspass", ".p4tickets",
    ".bazaar/authentication.conf", ".subversion/servers", ".hgrc", ".hg/hgrc", ".arcrc",
    ".gitrobrc", "GitHub CLI/hosts.yml",
    # Package managers: npmrc, pypirc, Cargo, RubyGems, Composer, Maven, Gradle, NuGet, Conan
    ".npmrc", "file:npmrc", "dot_npmrc", ".npmrc-*", ".npmrc_*", ".npmrc.*", ".pypirc",
    "file:pypirc", "dot_pypirc", ".pypirc-*", ".pypirc_*", ".pypirc.*", ".cargo/credentials",
    ".cargo/credentials.toml", ".gem/credentials", ".bundle/config", "auth.json",
    ".m2/settings.xml", ".m2/settings-security.xml", "settings-security.xml",
    ".gradle/gradle.properties", ".ivy2/.credentials", ".sbt/.credentials", "credentials.sbt",
    ".credentials", "coursier/credentials.properties", ".nuget/NuGet/NuGet.Config",
    "AppData/Roaming/NuGet/NuGet.Config", ".hex/hex.config", "pub-credentials.json",
    "pub-tokens.json", ".conan.db", ".conan2/credentials.json", ".continuum/**",
    "pypoetry/auth.toml", ".jfrog/**", ".lein/credentials.clj", ".Renviron", ".pip/pip.conf",
    ".config/pip/pip.conf", ".config/uv/credentials/**", "uv/credentials/**",
    # Amazon Web Services: CLI and console
    ".aws/**", ".awsvault/**", ".saml2aws", "accessKeys.csv", "*_accessKeys.csv", "rootkey.csv",
    "{,.}boto.cfg", ".boto", ".gsutil/**", ".s3cfg", "file:s3cfg", ".passwd-s3fs",
    ".elasticbeanstalk/aws_credential_file", ".okta/**", ".okta_aws_login_config",
    # Google Cloud, Google Workspace and Firebase
    ".config/gcloud/**", "AppData/Roaming/gcloud/**", "application_default_credentials.json",
    "service-account*.json", "service_account*.json", "serviceaccount.json",
    "serviceaccountkey.json", "serviceaccount-*.json", "*-service-account*.json",
    "*_service_account*.json", "*firebase{-,_}admin{,-,_}sdk*.json", "client_secret.json",
    "client{-,_}secret_*.json", "client_secrets.json", "token.json", "earthengine/credentials",
    ".config/configstore/firebase-tools.json",
    # Microsoft Azure, Visual Studio and ASP.NET Core
    ".azure/**", "*service{-,_}principal*.json", "azure{-,_}sp.json", "azureauth.json",
    "accessTokens.json", "msal_token_cache.*", "*.publishsettings", "*.pubxml.user",
    "*.azurePubxml", "*.cscfg", "local.settings.json", "Microsoft/UserSecrets/**",
    ".microsoft/usersecrets/**",
    # Other clouds and hosters: their command lines' configuration
    ".oci/**", ".bluemix/**", ".aliyun/**", ".tccli/**", ".config/doctl/**", ".config/linode-cli",
    ".config/hcloud/**", ".config/scw/**", ".ovh.conf", ".fly/**", "com.vercel.cli/auth.json",
    ".config/netlify/**", ".netlify/config.json", ".railway/**", ".wrangler/config/**",
    ".config/.wrangler/**", ".supabase/access-token", ".edgerc", "clouds.yaml", "openrc.sh",
    "*-openrc.sh", ".cloudflared/**", ".ngrok2/**", "ngrok.yml", ".expo/state.json", ".boxcli/**",
    ".rclone.conf", "rclone.conf", ".config/stripe/**", ".twilio-cli/**", ".sentryclirc",
    "sentry.properties", ".transifexrc", ".config/exercism/user.json", ".config/syncthing/**",
    ".databrickscfg", ".databricks-connect", ".cdsapirc", ".ecmwfapirc", ".planet.json", ".tugboat",
    ".trc", ".twurlrc", ".mc/config.json", ".passbolt/**",
    # Terraform, Pulumi, Vault, Nomad, Ansible, Chef, Salt, Vagrant, SOPS and age
    "*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", "*.tfplan", ".terraform.d/**",
    ".terraformrc", "terraform.rc", "credentials.tfrc{,.json}", ".pulumi/credentials.json",
    ".vault-token", "file:*vault{,-,_}pass{,wd,word}{,-,_}{,file}{,.txt}", ".vault_pass*",
    ".vault-pass*", ".ansible_vault*", "file:*.vault", "vault.{json,yaml,yml}",
    f"vault.{STAGE}.{{yaml,yml}}", f"vault-{STAGE}.{{yaml,yml}}",
    "*{ansible,secret,secrets}{-,_}vault{,.yaml,.yml}", "{group_vars,host_vars}/*/vault",
    "vault{-,_}{init,keys,root,unseal}*.{json,txt}", "*.vault.{yaml,yml}", "galaxy_token",
    ".nomad-token", ".consul-token", ".chef/**", "knife.rb", "encrypted_data_bag_secret", ".saltrc",
    ".vagrant.d/**", ".vagrant/**", "age/keys.txt", ".age/**", "keys.agekey", "*.agekey",
    # Docker, Podman, Kubernetes and Helm: logins, cluster access, Secret manifests
    "{,.}docker/config.json", ".dockercfg", "file:dockercfg", "dockerconfig.json",
    "dockerconfigjson", "*.dockerconfigjson", "containers/auth.json", "regcred.{json,yaml,yml}",
    "registry{-,_}auth.json", ".kube/**", "file:{aws,kube}/config", "file:kubeconfig",
    "kubeconfig.{conf,json,txt,yaml,yml}", "*-kubeconfig", "*_kubeconfig",
    "*-kubeconfig.{conf,json,yaml,yml}", "*_kubeconfig.{conf,json,yaml,yml}",
    "file:kube-config{,.conf,.json,.txt,.yaml,.yml}",
    "file:kube_config{,.conf,.json,.txt,.yaml,.yml}", f"file:kubeconfig.{STAGE}",
    f"file:kubeconfig-{STAGE}{{,.yaml,.yml}}", "*.kubeconfig", "*.kubeconfig.{yaml,yml}",
    "k3s.yaml", "{,super-}admin.conf",
    "kubernetes/{bootstrap-kubelet,controller-manager,kubelet,scheduler}.conf", ".minikube/**",
    "helm/registry/config.json", ".crc/**", ".config/argocd/**", ".argocd/**", ".rancher/**",
    "file:talosconfig", "talosconfig.{yaml,yml}", ".talos/**", "run/secrets/**", "secret.yaml",
    "secrets.yaml", "secret.yml", "secrets.yml",
    # Tools for models: MCP clients, Claude, Codex, Gemini, Copilot, Hugging Face, Kaggle
    ".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".roo/mcp.json", ".kiro/settings/mcp.json",
    "claude_desktop_config.json", ".claude.json", ".claude/.credentials.json",
    "cline_mcp_settings.json", "mcp_settings.json", ".codeium/**", ".gemini/oauth_creds.json",
    ".qwen/oauth_creds.json", "oauth_creds.json", "oauth.json", "storage{,-,_}state.json",
    ".auth/**", ".config/github-copilot/**", "github-copilot/hosts.json",
    "github-copilot/apps.json", "auth-profiles.json", ".openclaw/credentials/**",
    ".openclaw/openclaw.json", ".continue/config.json", ".continue/config.yaml",
    "io.datasette.llm/keys.json", ".grok/user-settings.json", ".huggingface/token",
    "huggingface/token", "huggingface/stored_tokens", "kaggle.json", ".kaggle/**", ".anthropic/**",
    ".openai/**",
    # Databases: PostgreSQL, MySQL, MongoDB, Cassandra, Snowflake, dbt, ODBC, DBeaver, Redis
    "*.pgpass", "file:pgpass", "pgpass.conf", ".pg_service.conf", "{,.}my.cnf", ".mylogin.cnf",
    "{cwallet,ewallet}.sso", "*wallet*.sso", ".mongorc.js", ".mongodb/**", ".cassandra/**",
    ".cqlshrc", ".snowsql/**", ".snowflake/**", ".dbt/**", ".odbc.ini", "credentials-config.json",
    ".dbeaver-data-sources*.xml", "robomongo.json", "users.acl", ".influxdbv2/**",
    ".clickhouse-client/**",
    # Web servers and frameworks: Apache, Rails, Phoenix, WordPress, Drupal, Magento
    "file:htpasswd", ".htpasswd-*", ".htpasswd_*", "file:htdigest", "*.htpasswd", ".htdigest",
    "tomcat-users.xml", "jmxremote.password", "secret_token.rb", "*.secret.exs", "wp-config.php",
    "wp-config-local.php", "LocalSettings.php", "settings.local.php", "sites/default/settings.php",
    "app/etc/env.php", "app/config/parameters.yml", "local_settings.py", "jupyter_cookie_secret",
    "notebook_cookie_secret", ".jupyter/**", "jupyter/runtime/**", "letsencrypt/archive/**",
    "letsencrypt/live/**", "letsencrypt/accounts/**", "arduino_secrets.h", ".erlang.cookie",
    # Build servers: Jenkins, Buildkite, CircleCI, Travis, act
    "credentials.xml", "hudson.util.Secret", "buildkite-agent.cfg", ".circleci/cli.yml",
    ".travis/config.yml", "jenkins.plugins.publish_over_ssh.BapSshPublisherPlugin.xml",
    # Operating systems: shadow(5), wpa_supplicant, NetworkManager, WireGuard, OpenVPN, pppd
    "file:shadow", "file:gshadow", "etc/shadow-", "etc/gshadow-", "master.passwd",
    "etc/security/opasswd", "etc/ssl/private/**", "wpa_supplicant.conf", "wpa_supplicant-*.conf",
    "system-connections/**", "*.nmconnection", "*.mobileconfig", "wireguard/*.conf",
    "wg{-,0,1,2}*.conf", "*.ovpn", "*.tblk", "{,open}vpn/{auth,login,pass}.txt", "psk.txt",
    "ipsec.secrets", "sasl_passwd", "exim4/passwd.client", "chap-secrets", "pap-secrets",
    "unattend.xml", "autounattend.xml", "sysprep.inf", "ntds.dit", "ntuser.dat",
    "Microsoft/Credentials/**", "Microsoft/Protect/**", "*.bek", "*.fve",
    # Histories: bash(1), zsh(1), psql(1), mysql(1), IPython, PowerShell, less(1), Vim
    ".*_history", ".*-history", ".history", ".zhistory", ".histfile", ".bash_sessions/**",
    ".zsh_sessions/**", "{bash,fish,irb,mysql,psql,python,sh,zsh}_history", "{bash,zsh}-history",
    "nvim/shada/**", ".*_hist", ".Rhistory", ".lesshst", ".viminfo", ".dbshell", "cqlsh_history",
    "mongosh_repl_history", "history.sqlite", "ConsoleHost_history.txt", ".ipython/**",
    "repl_history.jl", "nushell/history.*", "atuin/history.db", "pgcli/history", "usql_history",
    ".wget-hsts", ".netrwhist",
    # Browsers and mail: Chromium, Firefox, Safari, Thunderbird, curl's cookie file
    ".mozilla/**", ".thunderbird/**", ".config/google-chrome/**", ".config/chromium/**",
    ".config/BraveSoftware/**", ".config/microsoft-edge/**", ".config/vivaldi/**",
    ".config/opera/**", "Application Support/Google/Chrome/**", "Application Support/Firefox/**",
    "Google/Chrome/User Data/**", "Firefox/Profiles/**", "Login Data", "Login Data For Account",
    "Web Data", "Local State", "Default/Cookies", "Default/History", "Network/Cookies",
    "logins.json", "key3.db", "key4.db", "signons.sqlite", "cookies.sqlite", "places.sqlite",
    "formhistory.sqlite", "*.binarycookies", "cookies.txt", ".msmtprc", ".muttrc", ".mutt/**",
    ".fetchmailrc", ".mbsyncrc", ".offlineimaprc", ".esmtprc", ".mailrc", ".getmail/**",
    # Password managers and keyrings: KeePass, 1Password, Bitwarden, pass, GNOME, KDE, macOS
    "*.kdbx", "*.kdb", "*.psafe3", "*.agilekeychain", "*.opvault", "*.1pif", "*.1pux", "*.enpassdb",
    "*.kwl", "*.kwallet", ".pki/**", ".config/1Password/**", "*.keychain", "*.keychain-db",
    "*.keyring", ".local/share/keyrings/**", "kwalletd/**", "Library/Keychains/**",
    ".password-store/**", ".op/**", ".config/op/**", "Bitwarden CLI/data.json",
    "bitwarden_export_*", "lastpass_export*", ".lpass/**",
    "{1password,bitwarden,dashlane,enpass,keepass,keeper,lastpass,nordpass,roboform}*.csv",
    "{1password,bitwarden,dashlane,enpass,keepass,keeper,lastpass,nordpass,roboform}*.json",
    "*{backup,recovery}{,-,_, }codes*.txt",
    # Wallets: Bitcoin Core, Electrum, Ethereum, Solana, NEAR, Sui
    "wallet.dat", "file:default_wallet", "*.wallet", "UTC--*", ".bitcoin/**", ".electrum/**",
    ".ethereum/keystore/**", ".foundry/keystores/**", ".config/solana/**", ".near-credentials/**",
    "sui.keystore",
    # Chats: Pidgin, irssi, WeeChat, HexChat, Signal, Telegram; Metasploit, recon-ng
    ".purple/**", ".irssi/**", "weechat/sec.conf", "servlist_.conf", ".config/Signal/**",
    "TelegramDesktop/tdata/**", ".msf4/**", ".recon-ng/**",
    # By custom, as gitignore templates and secret scanners list them
    "credentials.json", "credentials.yml", "credentials.yaml", "credentials.toml",
    "credentials.ini", "credentials.csv", "credentials.txt", "credentials.properties",
    "credentials.db", ".credentials.json", "*-credentials.json", "*_credentials.json", ".secret",
    ".secrets", ".secret.*", ".secrets.*", "secret.json", "secrets.json", "secrets.txt",
    "secrets.toml", "secrets.ini", "secrets.properties", "Secrets.xcconfig", "Secrets.plist",
    "password.txt", "passwords.txt", "passwords.csv", "passwords.xlsx", "passwd.txt", ".passwd",
    ".password", ".passwords", "token.txt", "tokens.txt", ".token", ".api_key", ".apikey",
    ".api-key", "api_key.txt", "api-key.txt", "apikey.txt", "api_keys.txt", "api-keys.txt",
    "apikeys.txt", "api_keys.json", "api-keys.json", "apikeys.json", "access_token.txt",
    ".github_token", ".gh_token", ".secret_key", "secret_key.txt",
)  # fmt: skip

ORDINARY_NAMES = (
    *ORDINARY_WORDS,
    # Examples have no values.
    ".env?example", ".env?sample", ".env?template", ".env?dist", ".env?defaults", ".env?schema",
    ".env.*.example", ".env.*.sample", ".env.*.template", ".env.*.dist", ".env?example.*",
    ".{dev.vars,envrc,netrc,npmrc,pypirc}.{dist,example,sample,template}", "dot_env.example",
    # Pages of manual sections, which look like numbered copies.
    "{man,man1,man5}/{gshadow,htdigest,htpasswd,netrc,shadow}.{1,5}",
    "env.{dist,example,sample,template}",
    "example.env", "sample.env", "template.env", "default.env", "defaults.env",
    "example.tfvars", "sample.tfvars", "example.auto.tfvars",
    # Hashes of findings, meant to be shared: detect-secrets.
    ".secrets.baseline",
    # Templates of a Helm chart, and texts of pages by language.
    "templates/secret.yaml", "templates/secrets.yaml", "templates/secret.yml",
    "{i18n,lang,locale,locales,messages,translations}/*/*.{json,yaml,yml}",
    # Parts of a design or an interface, and data of tests.
    "{design,figma,design-system,design-tokens,styles,theme,themes,tokens}/tokens.json",
    "{openapi,schema,schemas,swagger}/*{key,password,secret,token}{,s}.{json,yaml,yml}",
    "{paths,responses}/*{key,password,secret,token}{,s}.{json,yaml,yml}",
    "{fixtures,testdata}/{passwords,tokens}.{json,yaml,yml}",
)  # fmt: skip
"""Names that the patterns above would match, but of files without secrets."""


def list_denied() -> tuple[str, ...]:
    """Return the default deny list: patterns, then exceptions."""
    exceptions = (f"!{name}" for name in ORDINARY_NAMES)
    return (*SECRET_NAMES, *list_word_patterns(), *exceptions)
