"""Makes runs of different shapes with the real opentine: runs.py DIRECTORY."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from opentine.core import Run
from opentine.graph import RunStatus, StepKind

OUT = Path(sys.argv[1])
SECRET = b"a secret of enough bytes, for tests"
SEED = "11" * 32
NATIVE = {
    "kind": "opentine-native",
    "model": {"name": "m-1"},
    "replay": ["cache", "rerun"],
    "resume": True,
    "tools": [],
}


def run(name, resume=True, prompt="Mend it"):
    made = Run(run_id=f"run-{name}", created_at=1763400000.25)
    made.user_prompt = prompt
    made.model_info = "m-1"
    made.manifest = dict(NATIVE) if resume else {"kind": "external-harness", "harness": "codex", "replay": ["cache"], "resume": False}
    made.transcript.append({"role": "user", "content": prompt})
    made.status = RunStatus.completed
    return made


def say(made, kind, text, **more):
    step = made.add_step(StepKind[kind], {"text": text}, model_info="m-1", **more)
    made.transcript.append({"role": "assistant", "content": text, "step_id": step.id, **({"tool_calls": more["outputs"]["tool_calls"]} if "tool_calls" in more.get("outputs", {}) else {})})
    return step


def tool(made, name, arguments, result, call="", **more):
    step = made.add_step(StepKind.tool, {"arguments": arguments, "name": name}, outputs={"result": result}, tool_info={"name": name}, **more)
    made.transcript.append({"role": "tool", "content": result, "name": name, "tool_call_id": call, "step_id": step.id})
    return step


def calls(*names):
    return {"tool_calls": [{"id": f"c{at}", "name": name, "arguments": {"n": at}} for at, name in enumerate(names)]}


def shapes():
    made = run("linear"); say(made, "think", "a"); say(made, "done", "b"); yield made
    made = run("empty"); yield made
    made = run("tools"); say(made, "think", "look", outputs=calls("read")); tool(made, "read", {"n": 0}, "42", "c0"); say(made, "done", "ok"); yield made
    made = run("parallel"); one = say(made, "model", "", outputs=calls("a", "b", "a"))
    for at, name in enumerate("aba"):
        tool(made, name, {"n": at}, f"r{at}", f"c{at}", parent_ids=[one.id])
    say(made, "done", "all"); yield made
    made = run("error"); made.add_step(StepKind.error, {"text": "x"}, error={"message": "no answer", "type": "E"}); made.status = RunStatus.failed; yield made
    made = run("unicode", prompt="Größe \U0001f600 \u2028"); say(made, "done", "a\u0000b\u007f\ud7ff\uffff\U0010ffff"); yield made
    made = run("numbers"); tool(made, "calc", {"huge": 10**400, "minus": -(2**70), "floats": [1e16, 1e-5, -0.0, 5e-324, 1.7976931348623157e308, 0.1]}, {"deep": [[[{}]]], "n": None, "t": True}); yield made
    made = run("usage"); say(made, "done", "x", usage={"input": 10, "output": 5, "cache_read": 3, "cache_write_5m": 2, "cache_write_1h": 1, "reasoning": 4}, cost=0.001234, duration=1.5); yield made
    made = run("causal"); first = say(made, "think", "a"); second = say(made, "think", "b"); made.graph.steps[second.id] = replace(second, causal_ids=[first.id]); say(made, "done", "c"); yield made
    made = run("harness", resume=False); say(made, "model", "from a harness"); yield made
    made = run("paused"); say(made, "think", "half"); made.status = RunStatus.paused; yield made
    made = run("thinking"); say(made, "done", "x", outputs={"thinking": "hm"}); yield made
    made = run("open"); say(made, "think", "x", outputs=calls("never")); made.status = RunStatus.running; yield made
    made = run("turns"); say(made, "done", "a"); made.transcript.append({"role": "user", "content": "and now?"}); say(made, "done", "b"); yield made
    made = run("tagged"); say(made, "done", "a"); made.tags = ["x", "y"]; yield made


for made in shapes():
    os.environ["OPENTINE_COMPRESS"] = "0"
    made.save(OUT / f"{made.id}.tine")
linear = Run.load(OUT / "run-linear.tine")
forked = linear.fork(linear.graph.order[0])
forked.save(OUT / "run-forked.tine")
os.environ["OPENTINE_COMPRESS"] = "zlib"
long = run("zlib")
for at in range(30):
    say(long, "think", f"step {at} " + "word " * 40)
long.save(OUT / "run-zlib.tine")
os.environ["OPENTINE_COMPRESS"] = "0"
signed = run("hmac"); say(signed, "done", "signed")
signed.save(OUT / "run-hmac.tine", sign_key=SECRET, key_id="k", signer="s", signed_at="2026-11-18T00:00:00Z")
signed = run("ed25519"); say(signed, "done", "signed")
signed.save(OUT / "run-ed25519.tine", sign_key=SEED, sign_algorithm="ed25519")
first = json.loads((OUT / "run-tools.tine").read_text())
first["format_version"] = 1
from opentine._canon import _integrity_digest
first["metadata"]["integrity"] = {"algorithm": "sha256", "digest": _integrity_digest(first)}
(OUT / "run-v1.tine").write_text(json.dumps(first, indent=2, sort_keys=True))
(OUT / "linear-v0.json").write_text(json.dumps({"type": "Run", "id": "old", "status": "completed", "created_at": 1.5, "steps": [{"id": "abc", "kind": "think", "inputs": {"text": "t"}}, {"id": "def", "parent_id": "abc", "kind": "done", "inputs": {"text": "u"}}]}))
(OUT / "secret").write_bytes(SECRET)
(OUT / "seed").write_text(SEED)
