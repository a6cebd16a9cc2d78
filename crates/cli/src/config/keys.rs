//! Everything that can be set: one line each.

/// What a value has to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// The name of a model.
    Model,
    Count,
    Duration,
    Money,
    Url,
    Effort,
    /// One of a few words.
    OneOf(&'static [&'static str]),
    /// Never printed.
    Secret,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) env: Option<&'static str>,
    pub(crate) default: Option<&'static str>,
    pub(crate) kind: Kind,
    pub(crate) about: &'static str,
}

const fn key(
    name: &'static str,
    env: Option<&'static str>,
    default: Option<&'static str>,
    kind: Kind,
    about: &'static str,
) -> Key {
    Key { name, env, default, kind, about }
}

/// Everything that can be set, but for prices (`prices.<model>.input` and so on).
pub(crate) const KEYS: &[Key] = &[
    key(
        "agent",
        Some("SEGUE_AGENT"),
        Some("native"),
        Kind::Text,
        "Who works when no agent is named.",
    ),
    key(
        "model",
        Some("SEGUE_MODEL"),
        Some("script"),
        Kind::Model,
        "The native agent's model: anthropic/…, openai/…, chat/…, script:FILE, or script.",
    ),
    key(
        "fallback",
        Some("SEGUE_FALLBACK"),
        None,
        Kind::Text,
        "Who goes on when the agent runs into its limit, in this order: codex,gemini,native.",
    ),
    key(
        "checkpoints",
        Some("SEGUE_CHECKPOINTS"),
        Some("git"),
        Kind::OneOf(&["git", "always", "off"]),
        "Where the workspace is kept at the end of every turn: git (in repositories), always (in \
         plain directories too) or off.",
    ),
    key(
        "offer",
        Some("SEGUE_OFFER"),
        Some("ask"),
        Kind::OneOf(&["ask", "never"]),
        "What `segue run` does where a session can be resumed: ask, or never.",
    ),
    key(
        "pair.worker",
        None,
        Some("codex"),
        Kind::Text,
        "Who works in a pair when no worker is named.",
    ),
    key(
        "pair.reviewers",
        None,
        None,
        Kind::Text,
        "Who reviews in a pair when nobody is named: claude,gemini. Unless it is set, claude; or \
         codex, where claude works.",
    ),
    key(
        "pair.max_iterations",
        Some("SEGUE_MAX_ITERATIONS"),
        Some("20"),
        Kind::Count,
        "The most attempts of a pair's worker at one task.",
    ),
    key(
        "pair.consensus",
        None,
        Some("all"),
        Kind::OneOf(&["all", "any", "majority"]),
        "How many reviewers have to let the work pass: all, any or majority.",
    ),
    key("pair.proof", None, None, Kind::Text, "The proof command of a pair when none is given."),
    key(
        "pair.done",
        None,
        None,
        Kind::Text,
        "The line that a pair's worker has to end with before it is reviewed, when none is given.",
    ),
    key(
        "pair.tmux",
        None,
        Some("off"),
        Kind::OneOf(&["on", "off"]),
        "Whether a pair is shown in tmux: on or off.",
    ),
    key(
        "pair.worktree",
        None,
        Some("off"),
        Kind::OneOf(&["on", "off"]),
        "Whether a pair works in a worktree of its own: on or off.",
    ),
    key(
        "tasks.worker",
        None,
        None,
        Kind::Text,
        "Who works through a list of tasks when no worker is named. Unless it is set, `agent`.",
    ),
    key(
        "tasks.evaluator",
        None,
        None,
        Kind::Text,
        "Who evaluates each task when nobody is named. Unless it is set, the first other agent \
         that is installed.",
    ),
    key(
        "tasks.max_iterations",
        Some("SEGUE_MAX_ITERATIONS"),
        Some("32"),
        Kind::Count,
        "The most attempts of a worker at one task of a list; 0 for no cap.",
    ),
    key(
        "tasks.consensus",
        None,
        Some("all"),
        Kind::OneOf(&["all", "any", "majority"]),
        "How many evaluators have to accept a task: all, any or majority.",
    ),
    key(
        "tasks.proof",
        None,
        None,
        Kind::Text,
        "The proof command of a list of tasks when none is given.",
    ),
    key(
        "proof.time",
        Some("SEGUE_PROOF_TIME"),
        Some("30m"),
        Kind::Duration,
        "The longest that a proof command may take: 90s, 15m, 2h.",
    ),
    key(
        "agents.tools",
        None,
        Some("on"),
        Kind::OneOf(&["on", "off"]),
        "Whether vendors' programs are offered Segue's own tools, for the run only: on or off.",
    ),
    key(
        "caps.turns",
        Some("SEGUE_MAX_TURNS"),
        Some("50"),
        Kind::Count,
        "The most turns of a session; of a list of tasks only where it is set.",
    ),
    key(
        "caps.reviews",
        Some("SEGUE_MAX_REVIEWS"),
        None,
        Kind::Count,
        "The most reviews of a pair's work, or of one task of a list; 0 for no cap.",
    ),
    key(
        "caps.steps",
        Some("SEGUE_MAX_STEPS"),
        Some("200"),
        Kind::Count,
        "The most model calls of a turn.",
    ),
    key(
        "caps.time",
        Some("SEGUE_MAX_TIME"),
        None,
        Kind::Duration,
        "The longest that a run may take, from its start or resume: 90s, 15m, 2h.",
    ),
    key(
        "caps.tokens",
        Some("SEGUE_MAX_TOKENS"),
        None,
        Kind::Count,
        "The most tokens of a session: 400k, 2M.",
    ),
    key(
        "caps.cost",
        Some("SEGUE_MAX_COST"),
        None,
        Kind::Money,
        "The most money of a session, in dollars.",
    ),
    key(
        "anthropic.base_url",
        Some("ANTHROPIC_BASE_URL"),
        None,
        Kind::Url,
        "Where the Anthropic Messages API is.",
    ),
    key("anthropic.key", Some("ANTHROPIC_API_KEY"), None, Kind::Secret, "The key for it."),
    key(
        "openai.base_url",
        Some("OPENAI_BASE_URL"),
        None,
        Kind::Url,
        "Where the OpenAI Responses API is.",
    ),
    key("openai.key", Some("OPENAI_API_KEY"), None, Kind::Secret, "The key for it."),
    key(
        "chat.base_url",
        Some("SEGUE_CHAT_BASE_URL"),
        None,
        Kind::Url,
        "Where a Chat Completions API is.",
    ),
    key("chat.key", Some("SEGUE_CHAT_KEY"), None, Kind::Secret, "The key for it."),
    key(
        "native.effort",
        Some("SEGUE_EFFORT"),
        None,
        Kind::Effort,
        "How hard the model thinks: low, medium or high.",
    ),
    key(
        "native.context_tokens",
        None,
        None,
        Kind::Count,
        "The model's context, where Segue does not know it.",
    ),
    key(
        "native.idle_timeout",
        None,
        Some("120s"),
        Kind::Duration,
        "A model that stays silent for so long has cut the stream.",
    ),
    key(
        "native.attempts",
        None,
        Some("5"),
        Kind::Count,
        "How often a failed model call is made, all in all.",
    ),
    key(
        "agents.attempts",
        None,
        Some("2"),
        Kind::Count,
        "How often a vendor's program is tried, all in all, when its model's server fails.",
    ),
    key(
        "agents.silence",
        None,
        Some("10m"),
        Kind::Duration,
        "A vendor's program that says nothing for so long is stopped.",
    ),
    key(
        "agents.tool_silence",
        None,
        Some("1h"),
        Kind::Duration,
        "The same, while one of its tools runs.",
    ),
];
