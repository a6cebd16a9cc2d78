"""Makes runs of different shapes with the real opentine: runs.py DIRECTORY."""

import hashlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from opentine._canon import _canonical_bytes, _integrity_digest
from opentine._signing_verify import sign_block
from opentine._signing_view import SCHEME_V1, signed_message
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
(OUT / "secret").write_bytes(SECRET)
(OUT / "seed").write_text(SEED)
public = bytes.fromhex(json.loads((OUT / "run-ed25519.tine").read_text())["metadata"]["integrity"]["signature"]["public_key"])
(OUT / "public").write_text(public.hex() + "\n")
(OUT / "public-raw").write_bytes(public)


def write(name, document):
    (OUT / name).write_text(json.dumps(document, indent=2, sort_keys=True))


# As releases before 0.7.1 signed: less of the metadata.
for algorithm, key in (("hmac-sha256", SECRET), ("ed25519", SEED)):
    old = json.loads((OUT / "run-tagged.tine").read_text())
    old["run_id"] = f"run-first-{algorithm}"
    old["metadata"]["integrity"] = {"algorithm": "sha256", "digest": _integrity_digest(old)}
    block = sign_block(lambda header: signed_message(old, header), key, algorithm=algorithm, scheme=SCHEME_V1, signer="s")
    old["metadata"]["integrity"]["signature"] = block
    write(f"run-first-{algorithm}.tine", old)


# Version 1, as 0.1.x wrote it: no usage, no calls in what is said, no ids of calls.
def step(kind, parents, inputs, outputs, tool=None):
    said = {"error": {}, "inputs": inputs, "kind": kind, "model_info": "m-1", "outputs": outputs, "parent_ids": parents, "tool_info": {"name": tool} if tool else {}}
    return {**said, "cost": 0.0, "duration": 0.2, "id": hashlib.sha256(_canonical_bytes(said)).hexdigest(), "timestamp": 1763400001.0}


one = step("think", [], {"text": "I look."}, {})
two = step("tool", [one["id"]], {"arguments": {"path": "a.txt"}, "name": "read"}, {"result": "42"}, "read")
three = step("done", [two["id"]], {"text": "It is 42."}, {})
first = {
    "cache": {}, "created_at": 1763400000.0, "format_version": 1,
    "graph": {"order": [one["id"], two["id"], three["id"]], "steps": {each["id"]: each for each in (one, two, three)}},
    "manifest": NATIVE, "metadata": {"model_info": "m-1", "system_prompt": "", "user_prompt": "What is in a.txt?"},
    "policies": {"profile": "secure"}, "refs": {"main": three["id"]}, "run_id": "run-v1", "status": "completed",
    "transcript": [
        {"role": "user", "content": "What is in a.txt?"},
        {"role": "assistant", "content": "I look.", "step_id": one["id"]},
        {"role": "tool", "content": "42", "name": "read", "step_id": two["id"]},
        {"role": "assistant", "content": "It is 42.", "step_id": three["id"]},
    ],
}
first["metadata"]["integrity"] = {"algorithm": "sha256", "digest": _integrity_digest(first)}
write("run-v1.tine", first)


# The very first files: a list of steps with short ids, one parent each, and no digest.
def linear(id, parent, kind, inputs, outputs):
    return {"type": "Step", "id": id, "parent_id": parent, "kind": kind, "inputs": inputs, "outputs": outputs, "model_info": "m-0", "timestamp": 1763400001.5, "duration": 0.5, "cost": 0.25}


steps = [
    linear("375a4707c485", None, "think", {"text": "I look."}, {}),
    linear("b64d0ca6a6dc", "375a4707c485", "tool", {"name": "read", "arguments": {"path": "a.txt"}}, {"result": "42"}),
    linear("3acd0a5d0e6a", "b64d0ca6a6dc", "done", {"text": "It is 42."}, {}),
]
write("linear-v0.json", {"type": "Run", "id": "old", "status": "completed", "created_at": 1763400000.5, "model_info": "m-0", "system_prompt": "", "user_prompt": "What is in a.txt?", "metadata": {}, "steps": steps})
