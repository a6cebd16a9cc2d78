//! stub
use crate::style::Style;
use jiff::Timestamp;
use segue_core::State;
pub fn json(state: &State, alive: bool) -> serde_json::Value {
    let mut v = serde_json::json!({"alive": alive});
    if let Some(c) = &state.crew {
        v["members"] = serde_json::to_value(
            c.members
                .iter()
                .map(|m| {
                    let mut x = serde_json::to_value(m).unwrap_or_default();
                    x["state"] = x["doing"].clone();
                    x
                })
                .collect::<Vec<_>>(),
        )
        .unwrap_or_default();
        v["dead"] = serde_json::to_value(&c.dead).unwrap_or_default();
    }
    v
}
pub fn table(state: &State, _style: &Style, _now: Timestamp) -> String {
    let mut s = String::new();
    for m in state.crew.iter().flat_map(|c| &c.members) {
        s += &format!(
            "{}  {}  {:?}  {:?} {:?}\n",
            m.name, m.doing, m.what, m.vendor_session, m.pane
        );
    }
    s
}
