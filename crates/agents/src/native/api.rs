//! A model behind an HTTP API: what the three of them have in common.
//!
//! A [`Dialect`] says where the endpoint is, how a request is written and how an answer is read.

use std::{fmt, marker::PhantomData};

use serde_json::Value;

use super::http::{Client, Decoder};
use super::message::Reply;
use super::model::{Model, ModelError, OnDelta, Request};
use super::price;
use super::settings::{Effort, Provider, Settings};

/// How one vendor's API is spoken.
pub(super) trait Dialect {
    const PROVIDER: Provider;
    const PATH: &'static str;
    /// The header of the key, and what stands before the key in it.
    const KEY: (&'static str, &'static str);
    const HEADERS: &'static [(&'static str, &'static str)] = &[];
    /// The context of a model that is not in the table.
    const CONTEXT: u64;
    type Decode: Decoder;

    fn encode(model: &str, effort: Option<Effort>, request: &Request<'_>) -> Value;
    fn decode(model: &str, request: &Request<'_>) -> Self::Decode;
}

/// A model behind the API of a dialect.
pub(super) struct Api<D> {
    client: Client,
    name: String,
    model: String,
    effort: Option<Effort>,
    context: u64,
    dialect: PhantomData<fn() -> D>,
}

impl<D: Dialect> Api<D> {
    /// # Errors
    /// When address, key or certificates cannot be used.
    pub(super) fn new(model: &str, settings: &Settings) -> Result<Self, ModelError> {
        let mut client = Client::new(D::PROVIDER, settings, D::PATH, D::KEY)?;
        for (name, value) in D::HEADERS {
            client = client.with_header(name, value);
        }
        let known = settings.context_tokens.or_else(|| price::context_tokens(model));
        Ok(Self {
            client,
            name: format!("{}/{model}", D::PROVIDER.word()),
            model: model.to_owned(),
            effort: settings.effort,
            context: known.unwrap_or(D::CONTEXT),
            dialect: PhantomData,
        })
    }
}

impl<D> fmt::Debug for Api<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<D: Dialect> Model for Api<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn context_tokens(&self) -> u64 {
        self.context
    }

    fn call(&mut self, request: &Request<'_>, on: &mut OnDelta<'_>) -> Result<Reply, ModelError> {
        let body = D::encode(&self.model, self.effort, request);
        self.client.run(&body, D::decode(&self.model, request), on)
    }
}
