//! Keys for signatures: from a file or from the environment, never from the command line.

use std::{fs, path::PathBuf};

use segue_share::{
    foreign::Demand,
    tine::{Algorithm, Signing, Trust},
};

use crate::{context::Context, error::CommandError};

const MAX_BYTES: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SignWith {
    /// A shared secret of at least 16 bytes
    Hmac,
    /// A private key: 32 bytes, or 64 hex digits
    Ed25519,
}

/// With what a file is signed.
#[derive(Debug, clap::Args)]
pub(crate) struct SignFlags {
    /// Sign the .tine file
    #[arg(long, value_name = "HOW")]
    pub(crate) sign_with: Option<SignWith>,
    /// The file with the key
    #[arg(long, value_name = "FILE", requires = "sign_with", conflicts_with = "key_env")]
    key_file: Option<PathBuf>,
    /// The variable with the key
    #[arg(long, value_name = "NAME", requires = "sign_with")]
    key_env: Option<String>,
    /// A name for the key
    #[arg(long, value_name = "ID", requires = "sign_with")]
    key_id: Option<String>,
    /// Who signs
    #[arg(long, value_name = "NAME", requires = "sign_with")]
    signer: Option<String>,
}

impl SignFlags {
    pub(crate) fn signing(&self, context: &Context) -> Result<Option<Signing>, CommandError> {
        let Some(how) = self.sign_with else { return Ok(None) };
        let read = if how == SignWith::Hmac { secret } else { key };
        let key = read(context, self.key_file.as_ref(), self.key_env.as_deref())?;
        let key = key.ok_or_else(|| {
            CommandError::usage("--sign-with needs a key")
                .hint("--key-file FILE, or --key-env NAME")
        })?;
        let algorithm = match how {
            SignWith::Hmac => Algorithm::Hmac,
            SignWith::Ed25519 => Algorithm::Ed25519,
        };
        let (key_id, signer) = (self.key_id.clone(), self.signer.clone());
        let signed_at = Some(context.now().to_string());
        Ok(Some(Signing { algorithm, key, key_id, signer, signed_at }))
    }
}

/// Against what a signature is checked.
#[derive(Debug, clap::Args)]
pub(crate) struct TrustFlags {
    /// The file with the shared secret that a .tine file is signed with
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_env", "pubkey"])]
    key_file: Option<PathBuf>,
    /// The variable with it
    #[arg(long, value_name = "NAME", conflicts_with = "pubkey")]
    key_env: Option<String>,
    /// The file with the public key that a .tine file is signed with
    #[arg(long, value_name = "FILE")]
    pubkey: Option<PathBuf>,
    /// Refuse a .tine file without a good signature
    #[arg(long)]
    require_signature: bool,
}

impl TrustFlags {
    pub(crate) fn demand(&self, context: &Context) -> Result<Demand, CommandError> {
        let public = key(context, self.pubkey.as_ref(), None)?.map(Trust::Public);
        let secret = secret(context, self.key_file.as_ref(), self.key_env.as_deref())?;
        let trust = public.or(secret.map(Trust::Secret));
        Ok(Demand { trust, signed: self.require_signature })
    }

    /// Whether any of these was given.
    pub(crate) fn given(&self) -> bool {
        self.key_file.is_some()
            || self.key_env.is_some()
            || self.pubkey.is_some()
            || self.require_signature
    }
}

/// A shared secret: the line end of its file is no part of it.
fn secret(
    context: &Context,
    file: Option<&PathBuf>,
    variable: Option<&str>,
) -> Result<Option<Vec<u8>>, CommandError> {
    let mut secret = key(context, file, variable)?;
    if let Some(secret) = secret.as_mut().filter(|_| file.is_some())
        && secret.last() == Some(&b'\n')
    {
        secret.pop();
    }
    Ok(secret)
}

/// A key as it stands there.
fn key(
    context: &Context,
    file: Option<&PathBuf>,
    variable: Option<&str>,
) -> Result<Option<Vec<u8>>, CommandError> {
    if let Some(file) = file {
        let path = context.cwd.join(file);
        let wrong = |error: std::io::Error| {
            CommandError::usage(format!("the key can't be read: {}: {error}", path.display()))
        };
        if fs::metadata(&path).map_err(wrong)?.len() > MAX_BYTES {
            return Err(CommandError::usage(format!("{} is no key", path.display())));
        }
        return fs::read(&path).map(Some).map_err(wrong);
    }
    let Some(name) = variable else { return Ok(None) };
    match std::env::var(name) {
        Ok(key) => Ok(Some(key.into_bytes())),
        Err(_) => Err(CommandError::usage(format!("the variable {name} with the key is not set"))),
    }
}
