//! The way to the prompt: who the agent is, the session, and what has to be settled in it.

use agent_client_protocol_schema::{ProtocolVersion, v1 as acp};
use segue_core::Permission;
use serde_json::{Value, json, value::RawValue};

use super::{Agent, Message, Talk, Wanted, ask, bad, gone, number, parse, permission, trouble};
use crate::vendor::{
    Ending, Heard, Signal, Trouble,
    json::{at, text},
};

/// More sessions than this many pages have are not looked through.
const MOST_PAGES: i64 = 100;

impl Talk {
    pub(super) fn answered(&mut self, id: &RawValue, message: &Message<'_>, heard: &mut Heard) {
        let Ok(id) = id.get().parse::<i64>() else { return };
        if self.ended {
            return;
        }
        if let Some(error) = message.error {
            let error = serde_json::from_str(error.get());
            return self.failed(id, &error.unwrap_or_else(|_| acp::Error::internal_error()), heard);
        }
        match id {
            number::INITIALIZE => self.greeted(parse(message.result), heard),
            number::SESSION => self.entered(message.result, heard),
            number::MODE | number::MODEL => self.next(heard),
            number::PROMPT => self.finished(parse(message.result), heard),
            _ => self.listed(id, parse(message.result), heard),
        }
    }

    fn greeted(&mut self, answer: Option<acp::InitializeResponse>, heard: &mut Heard) {
        let Some(answer) = answer else {
            return self.fail(bad("its answer to `initialize` has another form"), heard);
        };
        if answer.protocol_version != ProtocolVersion::V1 {
            let version = answer.protocol_version;
            return self.fail(bad(&format!("it speaks version {version} of the protocol")), heard);
        }
        self.agent = Agent {
            sign_in: sign_in(&answer.auth_methods),
            can: answer.agent_capabilities,
            name: answer.agent_info.as_ref().map(|info| info.name.clone()).unwrap_or_default(),
        };
        if let Some(info) = answer.agent_info {
            heard.push(Signal::Version(info.version));
        }
        match self.cancelled {
            true => self.end(Ending::Cancelled, heard),
            false => self.enter(heard),
        }
    }

    fn enter(&mut self, heard: &mut Heard) {
        let can = &self.agent.can;
        let (sessions, cwd) = (&can.session_capabilities, self.cwd.clone());
        // Every agent has to know servers on standard streams; it need not be asked.
        let tools = self.tools.clone();
        match &self.wanted {
            Wanted::New => {
                let params = acp::NewSessionRequest::new(cwd).mcp_servers(tools);
                ask(number::SESSION, "session/new", params, heard);
            }
            // It replays nothing.
            Wanted::Resume(id) if sessions.resume.is_some() => {
                let params = acp::ResumeSessionRequest::new(id.clone(), cwd).mcp_servers(tools);
                ask(number::SESSION, "session/resume", params, heard);
            }
            Wanted::Resume(id) if can.load_session => {
                let params = acp::LoadSessionRequest::new(id.clone(), cwd).mcp_servers(tools);
                ask(number::SESSION, "session/load", params, heard);
            }
            Wanted::Fork(id) if sessions.fork.is_some() => {
                let params = acp::ForkSessionRequest::new(id.clone(), cwd).mcp_servers(tools);
                ask(number::SESSION, "session/fork", params, heard);
            }
            Wanted::Resume(_) => self.fail(gone("the agent resumes no sessions"), heard),
            Wanted::Fork(_) => self.fail(gone("the agent forks no sessions"), heard),
        }
    }

    /// The session is there. What it is told about itself is much the same however it came about.
    fn entered(&mut self, result: Option<&RawValue>, heard: &mut Heard) {
        let all: Value = parse(result).unwrap_or_default();
        let id = match (&self.wanted, text(&all, &["sessionId"])) {
            (Wanted::Resume(id), _) => id.clone(),
            (_, Some(id)) => id.to_owned(),
            (_, None) => return self.fail(bad("its session has no id"), heard),
        };
        heard.push(Signal::Session(id.clone()));
        self.session = Some(acp::SessionId::new(id));
        let about: acp::LoadSessionResponse = parse(result).unwrap_or_default();
        let options = about.config_options.unwrap_or_default();
        self.want_mode(about.modes.as_ref(), &options);
        if let Err(trouble) = self.want_model(&options, &all) {
            return self.fail(trouble, heard);
        }
        if let Some(model) = self.model.clone().or_else(|| current_model(&options, &all)) {
            heard.push(Signal::Model(model));
        }
        self.next(heard);
    }

    fn want_mode(
        &mut self,
        modes: Option<&acp::SessionModeState>,
        options: &[acp::SessionConfigOption],
    ) {
        let Some(session) = self.session.clone() else { return };
        if let Some(modes) = modes {
            let offered: Vec<&str> = modes.available_modes.iter().map(|mode| &*mode.id.0).collect();
            let suits = permission::mode(self.permission, &offered);
            // Said where it is so already, too: the answer is where a late replay has ended.
            let mode = suits.or_else(|| self.loads().then_some(&*modes.current_mode_id.0));
            if let Some(mode) = mode {
                let params = json!({ "sessionId": session, "modeId": mode });
                self.before.push((number::MODE, "session/set_mode", params));
            }
            return;
        }
        if let Some((option, values)) = select(options, &acp::SessionConfigOptionCategory::Mode)
            && let Some(mode) =
                permission::mode(self.permission, &values.iter().map(|v| v.0).collect::<Vec<_>>())
        {
            let params = json!({ "sessionId": session, "configId": option.id, "value": mode });
            self.before.push((number::MODE, "session/set_config_option", params));
        }
    }

    fn loads(&self) -> bool {
        let can = &self.agent.can;
        matches!(self.wanted, Wanted::Resume(_)) && can.session_capabilities.resume.is_none()
    }

    /// The model that was asked for, by its id or its name. Another one would not do.
    fn want_model(
        &mut self,
        options: &[acp::SessionConfigOption],
        all: &Value,
    ) -> Result<(), Trouble> {
        let (Some(model), Some(session)) = (&self.model, &self.session) else { return Ok(()) };
        let category = acp::SessionConfigOptionCategory::Model;
        if let Some((option, values)) = select(options, &category) {
            let value = values.iter().find(|(id, name)| id == model || name == model);
            let Some((value, _)) = value else { return Err(no_model(model)) };
            let params = json!({ "sessionId": session, "configId": option.id, "value": value });
            self.before.push((number::MODEL, "session/set_config_option", params));
            return Ok(());
        }
        // The way of earlier days, which Gemini CLI has kept.
        let offered = at(all, &["models", "availableModels"]).and_then(Value::as_array);
        let named = |one: &&Value| {
            ["modelId", "name"].iter().any(|field| text(one, &[field]) == Some(model))
        };
        let found = offered.and_then(|offered| offered.iter().find(named));
        let Some(id) = found.and_then(|found| text(found, &["modelId"])) else {
            return Err(no_model(model));
        };
        let params = json!({ "sessionId": session, "modelId": id });
        self.before.push((number::MODEL, "session/set_model", params));
        Ok(())
    }

    /// What is to be said next: what has to be settled first, then the prompt.
    fn next(&mut self, heard: &mut Heard) {
        if self.cancelled {
            return self.end(Ending::Cancelled, heard);
        }
        if !self.before.is_empty() {
            let (id, method, params) = self.before.remove(0);
            return ask(id, method, params, heard);
        }
        let Some(session) = self.session.clone().filter(|_| !self.prompted) else { return };
        self.prompted = true;
        let prompt = vec![acp::ContentBlock::from(std::mem::take(&mut self.prompt))];
        ask(number::PROMPT, "session/prompt", acp::PromptRequest::new(session, prompt), heard);
    }

    fn failed(&mut self, id: i64, error: &acp::Error, heard: &mut Heard) {
        let trouble = trouble::trouble(error, &self.agent.sign_in);
        match id {
            // Whatever it asks is granted anyway.
            number::MODE if self.permission == Permission::Full => self.next(heard),
            number::SESSION if !matches!(self.wanted, Wanted::New) => {
                self.no_session(error, trouble, heard);
            }
            number::PROMPT if error.code == acp::ErrorCode::RequestCancelled => {
                self.end(Ending::Cancelled, heard);
            }
            number::LIST.. => {
                let trouble = self.unsure.take().unwrap_or(trouble);
                self.fail(trouble, heard);
            }
            _ => self.fail(trouble, heard),
        }
    }

    /// Few agents say plainly that they have no such session. The others are asked for a list.
    fn no_session(&mut self, error: &acp::Error, trouble: Trouble, heard: &mut Heard) {
        let id = self.wanted.id();
        let details = error.data.as_ref().and_then(|data| text(data, &["details"]));
        // Gemini CLI has no list. It says the same of every id that it does not have.
        let unknown = format!("Invalid session identifier \"{id}\".");
        if error.code == acp::ErrorCode::ResourceNotFound
            || details.is_some_and(|details| details.starts_with(&unknown))
        {
            return self.fail(gone(id), heard);
        }
        let lists = self.agent.can.session_capabilities.list.is_some();
        match trouble {
            Trouble::Server { .. } | Trouble::BadRequest { .. } if lists => {
                self.unsure = Some(trouble);
                ask(number::LIST, "session/list", acp::ListSessionsRequest::new(), heard);
            }
            _ => self.fail(trouble, heard),
        }
    }

    fn listed(&mut self, id: i64, page: Option<acp::ListSessionsResponse>, heard: &mut Heard) {
        let Some(trouble) = self.unsure.take() else { return };
        let Some(page) = page else { return self.fail(trouble, heard) };
        let wanted = self.wanted.id();
        if page.sessions.iter().any(|session| &*session.session_id.0 == wanted) {
            return self.fail(trouble, heard);
        }
        match page.next_cursor {
            None => self.fail(gone(wanted), heard),
            Some(_) if id >= number::LIST + MOST_PAGES => self.fail(trouble, heard),
            Some(cursor) => {
                self.unsure = Some(trouble);
                let params = acp::ListSessionsRequest::new().cursor(cursor);
                ask(id + 1, "session/list", params, heard);
            }
        }
    }

    pub(super) fn fail(&mut self, trouble: Trouble, heard: &mut Heard) {
        self.end(Ending::Failed(trouble), heard);
    }

    pub(super) fn end(&mut self, ending: Ending, heard: &mut Heard) {
        self.ended = true;
        heard.end(ending);
        heard.close = true;
    }
}

fn no_model(model: &str) -> Trouble {
    bad(&format!("the agent has no model called `{model}`"))
}

/// A choice of some category: the option, and its values with their names.
fn select<'a>(
    options: &'a [acp::SessionConfigOption],
    category: &acp::SessionConfigOptionCategory,
) -> Option<(&'a acp::SessionConfigOption, Vec<(&'a str, &'a str)>)> {
    let option = options.iter().find(|option| option.category.as_ref() == Some(category))?;
    let acp::SessionConfigKind::Select(choice) = &option.kind else { return None };
    let values: Vec<&acp::SessionConfigSelectOption> = match &choice.options {
        acp::SessionConfigSelectOptions::Ungrouped(all) => all.iter().collect(),
        acp::SessionConfigSelectOptions::Grouped(groups) => {
            groups.iter().flat_map(|group| &group.options).collect()
        }
        _ => Vec::new(),
    };
    Some((option, values.iter().map(|one| (&*one.value.0, one.name.as_str())).collect()))
}

/// The model of a session, unless it is only called the default one.
fn current_model(options: &[acp::SessionConfigOption], all: &Value) -> Option<String> {
    let chosen = select(options, &acp::SessionConfigOptionCategory::Model);
    let chosen = chosen.and_then(|(option, _)| match &option.kind {
        acp::SessionConfigKind::Select(choice) => Some(&*choice.current_value.0),
        _ => None,
    });
    let model = chosen.or_else(|| text(all, &["models", "currentModelId"]))?;
    (!matches!(model, "default" | "auto")).then(|| model.to_owned())
}

/// How the agent says that a person signs in.
fn sign_in(methods: &[acp::AuthMethod]) -> String {
    let ways = methods.iter().map(|method| match method.description() {
        Some(more) => format!("{} ({more})", method.name()),
        None => method.name().to_owned(),
    });
    let ways: Vec<String> = ways.collect();
    match ways.is_empty() {
        true => "sign in with the agent's own program".to_owned(),
        false => ways.join(", or "),
    }
}
