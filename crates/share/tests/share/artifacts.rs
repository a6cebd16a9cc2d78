//! Documents of the other implementation, put together by hand, and sessions made from them.

use std::{fs, path::Path};

use segue_core::{identity::RepoRef, steps::Said};
use segue_journal::{Home, Session};
use segue_share::{
    foreign::{self, Demand, Format},
    tine::{
        Algorithm, Artifact, Codec, Into, Signing, Taken, Verdict,
        artifact::step_id,
        json::{Map, Value, map},
        write::pretty,
    },
};

pub(crate) const SECRET: &[u8] = b"a secret of enough bytes, for tests";

/// A run that was asked something, and said some things.
pub(crate) fn run(prompt: &str, says: &[&str]) -> Map {
    let says: Vec<_> = says.iter().map(|text| (*text, Map::new())).collect();
    run_of(prompt, &says)
}

/// The same with what the steps gave out.
pub(crate) fn run_of(prompt: &str, says: &[(&str, Map)]) -> Map {
    let (mut order, mut steps, mut transcript) = (Vec::<Value>::new(), Map::new(), Vec::new());
    transcript.push(map([("role", "user".into()), ("content", prompt.into())]));
    for (at, (text, outputs)) in says.iter().enumerate() {
        let mut step = map([
            ("cost", 0.25.into()),
            ("duration", 0.5.into()),
            ("error", Map::new().into()),
            ("inputs", map([("text", (*text).into())]).into()),
            ("kind", "done".into()),
            ("model_info", "m-1".into()),
            ("outputs", outputs.clone().into()),
            ("parent_ids", Value::List(order.last().cloned().into_iter().collect())),
            ("timestamp", (1_763_400_001.5 + at as f64).into()),
            ("tool_info", Map::new().into()),
        ]);
        let id = step_id(&step);
        step.insert("id".to_owned(), id.as_str().into());
        transcript.push(map([
            ("role", "assistant".into()),
            ("content", (*text).into()),
            ("step_id", id.as_str().into()),
        ]));
        steps.insert(id.clone(), step.into());
        order.push(id.into());
    }
    let last = order.last().cloned().unwrap_or_else(|| "".into());
    sealed(map([
        ("cache", Map::new().into()),
        ("created_at", 1_763_400_000.25.into()),
        ("format_version", 2u64.into()),
        ("graph", map([("order", Value::List(order)), ("steps", steps.into())]).into()),
        ("manifest", map([("kind", "opentine-native".into()), ("resume", true.into())]).into()),
        ("metadata", map([("model_info", "m-1".into()), ("user_prompt", prompt.into())]).into()),
        ("policies", Map::new().into()),
        ("refs", map([("main", last)]).into()),
        ("run_id", "run-by-hand".into()),
        ("status", "completed".into()),
        ("transcript", transcript.into()),
    ]))
}

/// A section of a document, to change it.
pub(crate) fn within<'a>(run: &'a mut Map, name: &str) -> &'a mut Map {
    let Some(Value::Map(section)) = run.get_mut(name) else { panic!("no {name}") };
    section
}

/// The document with the digest that it has to have.
pub(crate) fn sealed(mut run: Map) -> Map {
    within(&mut run, "metadata").remove("integrity");
    let digest = Artifact::read(plain(&run)).unwrap().digest();
    let integrity = map([("algorithm", "sha256".into()), ("digest", digest.into())]);
    within(&mut run, "metadata").insert("integrity".to_owned(), integrity.into());
    run
}

/// What a file says.
pub(crate) fn document(artifact: &Artifact) -> Map {
    match Value::read(&artifact.to_bytes(Codec::Plain)) {
        Ok(Value::Map(run)) => run,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn plain(run: &Map) -> Vec<u8> {
    pretty(&Value::Map(run.clone())).into_bytes()
}

pub(crate) fn signing(algorithm: Algorithm, key: &[u8]) -> Signing {
    Signing { algorithm, key: key.to_vec(), key_id: None, signer: None, signed_at: None }
}

/// The same, signed with the secret.
pub(crate) fn signed(run: &Map) -> Artifact {
    let mut artifact = Artifact::read(plain(run)).unwrap();
    artifact.sign(&signing(Algorithm::Hmac, SECRET)).unwrap();
    artifact
}

/// Brings the bytes of a file into a home.
pub(crate) fn bring(
    bytes: &[u8],
    home: &Home,
    demand: &Demand,
) -> segue_share::Result<(Taken, Verdict)> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x");
    fs::write(&file, bytes).unwrap();
    let repo = RepoRef { id: "r".into(), identity: "r".into(), head: None, branch: None };
    let into = Into { repo, workspace: "/nowhere".into() };
    foreign::import(&file, foreign::sniff(&file)?, home, into, demand)
}

pub(crate) fn session(home: &Home, taken: &Taken) -> Session {
    home.open(&taken.at).unwrap()
}

/// What a session is told as.
pub(crate) fn told(session: &Session, dir: &Path) -> Artifact {
    let file = dir.join("told.tine");
    foreign::write(session, &file, Format::Tine, true, None).unwrap();
    Artifact::open(&file).unwrap()
}

/// The steps of a session in words: kind, turn, and what is said.
pub(crate) fn steps(session: &Session) -> Vec<String> {
    let mut steps = Vec::new();
    let text = |payload: &segue_core::Payload| session.text(payload).unwrap();
    let each = |said: &Said| match said {
        Said::Text(words) => text(words),
        Said::Thinking { text: words, .. } => format!("({})", text(words)),
        Said::Call { id, name, input } => format!("{name}#{id} {}", text(input)),
        Said::Result { id, name, output, .. } => format!("{name}#{id} -> {}", text(output)),
    };
    let mut all = |step: segue_core::steps::Step| {
        let said: Vec<String> = step.said.iter().map(each).collect();
        steps.push(format!("{} {}: {}", step.turn, step.kind.word(), said.join(" | ")));
    };
    session.steps(&mut all).unwrap();
    steps
}
