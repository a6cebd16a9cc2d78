//! Telling a person: on the desktop, and to an address that takes JSON as Slack does.
//!
//! Nothing waits for it, and nothing fails because of it.

use std::{
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use segue_agents::vendor::World;
use segue_core::crew::{Notify, Occasion};

const PATIENCE: Duration = Duration::from_secs(10);

/// Tells it, where the roster says that this is worth telling.
pub(crate) fn tell(notify: &Notify, world: &World, crew: &str, what: Occasion, text: &str) {
    if !notify.on.contains(&what) {
        return;
    }
    let title = format!("Segue: {crew}");
    let text: String = text.chars().filter(|c| !c.is_control() || *c == '\n').take(500).collect();
    if notify.desktop {
        desktop(world, &title, &text);
    }
    let address = notify.webhook_env.as_deref().and_then(|name| world.get(name));
    if let Some(address) = address {
        let (address, body) = (address.to_owned(), format!("{title}: {text}"));
        thread::spawn(move || post(&address, &body));
    }
}

/// Only where there is a desktop.
fn desktop(world: &World, title: &str, text: &str) {
    if !world.has_any(&["DISPLAY", "WAYLAND_DISPLAY"]) && !cfg!(target_os = "macos") {
        return;
    }
    let mut command = match cfg!(target_os = "macos") {
        true => {
            let quoted = |text: &str| text.replace(['\\', '"'], "'");
            let (text, title) = (quoted(text), quoted(title));
            let script = format!("display notification \"{text}\" with title \"{title}\"");
            let mut command = Command::new("osascript");
            command.args(["-e", &script]);
            command
        }
        false => {
            let mut command = Command::new("notify-send");
            command.args(["--app-name=segue", "--", title, text]);
            command
        }
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        thread::spawn(move || child.wait());
    }
}

/// `{"text": …}`. The address is a secret: it is in no message of ours.
fn post(address: &str, text: &str) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
    let body = serde_json::json!({ "text": text }).to_string();
    let _ = agent.post(address).header("content-type", "application/json").send(&body);
}
