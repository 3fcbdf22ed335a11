"""hierarchos chat model=local model.path=FOLDER [KEY=VALUE ...]

Talks with a model through its chat template; answers appear as they are written. Settings are those of `hierarchos generate`
(generate.temperature=0.7, generate.max_new_tokens=400, device=..., adapters); a line that begins with a slash is a command:

  /reset          forget the conversation
  /save FILE      write it as one row of training data (coherent-v9: the state from which coherent.chat_state_file=FILE goes on)
  /system TEXT    begin anew with this system turn
  /learn, /reject, /correct TEXT    coherent-v9: writes to its memory that the last answer is right, is wrong, should be TEXT
  /quit           end (as Ctrl-D); Ctrl-C stops an answer
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from hierarchos.errors import UserError

DEFAULT_TOKENS = "generate.max_new_tokens=512"
NO_TURNS = ("prompt", "generate.prompt", "generate.prompts", "generate.chat")
FIRST_TURN = 64             # tokens that are planned for, beside those of an answer; a longer conversation needs more keys and values


def run(words: list[str]) -> int:
    """Opens the model and talks until the input ends."""
    conversation, close = opened(words)
    try:
        talk(conversation, sys.stdin.isatty())
    finally:
        close()
    return 0


def opened(words: list[str]) -> tuple[object, Callable[[], None]]:
    """A conversation with the package of the settings, and what gives its device back."""
    from hierarchos.data.encode_chat import ChatEncoder
    from hierarchos.data.tokenizer import load_tokenizer
    from hierarchos.generation.chat import Conversation
    from hierarchos.generation.generator import Generator
    from hierarchos.generation.need import generation_need
    from pipelines.devices import first_line, open_selected
    from pipelines.execute import prepare
    from pipelines.memory import require_fit
    from pipelines.settings.folders import Folders
    from pipelines.stages.acquire import model_folder
    from pipelines.stages.adapters import with_adapters
    from pipelines.stages.coherent_chat import open_chat
    from pipelines.stages.coherent_package import applies
    from pipelines.stages.generate import fewer_tokens, policy_of
    from pipelines.stages.packages import loaded_package
    from pipelines.stages.tokenize import encode_options

    if asked := next((word for word in words if word.partition("=")[0] in NO_TURNS), None):
        raise UserError(f"{asked} decides nothing in a conversation", where="command line",
                        hint="turns are typed, or come line by line from a file:  hierarchos chat ... < FILE")
    given = words if any(word.startswith("generate.max_new_tokens=") for word in words) else [DEFAULT_TOKENS, *words]
    job = prepare("generate", ["generate.prompt=chat", *given], Folders.find(None))
    config = job.config
    folder = model_folder(config, download=True)
    if applies(config, folder and str(folder)):
        conversation, close = open_chat(config, folder)
        print(first_line(job.device), file=sys.stderr)
        if conversation.history:
            turns = f"{len(conversation.history)} turn{'s' if len(conversation.history) != 1 else ''}"
            print(f"going on from {conversation.state_file}: {turns}, {conversation.session.position} tokens", file=sys.stderr)
        return conversation, close
    loaded = with_adapters(loaded_package(folder, config.model.config), config)
    if loaded.model.task == "masked":
        raise UserError("this model is an encoder: it sees both sides of a token and writes no text", where=str(loaded.package.folder))
    tokenizer = load_tokenizer(loaded.package.folder)
    template = ChatEncoder(tokenizer, encode_options(config)).template
    policy = policy_of(config, loaded.package.folder)
    if policy.num_beams > 1 or policy.contrastive or policy.num_return_sequences > 1:
        raise UserError(
            "a conversation has one answer that is written as it is read", hint="leave out num_beams, penalty_alpha, num_return_sequences"
        )
    print(first_line(job.device), file=sys.stderr)
    device = open_selected(config.device)
    try:
        need = generation_need(loaded.model, device, 1, min(FIRST_TURN, loaded.model.config.max_positions), policy)
        require_fit(device, config, lambda line: print(line, file=sys.stderr), "this conversation", need, fewer_tokens)
        generator = Generator.from_loaded(loaded, device, tokenizer)
        return Conversation(generator, template, policy), device.close
    except BaseException:
        device.close()
        raise


def talk(conversation, prompts: bool) -> None:
    """Reads turns and commands until /quit or the end of the input."""
    if prompts:
        import readline  # noqa: F401  arrow keys and history

        print(known_commands(conversation), file=sys.stderr)
    while True:
        try:
            line = input("> " if prompts else "").strip()
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            return
        if line.startswith("/"):
            if not command(conversation, line):
                return
        elif line:
            answer(conversation, line)


def known_commands(conversation) -> str:
    return ", ".join(("/reset", "/save FILE", "/system TEXT", *getattr(conversation, "commands", ()), "/quit"))


def answer(conversation, line: str) -> None:
    """Shows one answer; Ctrl-C stops it and keeps what was written."""
    from hierarchos.vulkan.errors import OutOfMemory

    pieces = conversation.reply(line)
    try:
        for piece in pieces:
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        pieces.close()
    except UserError as error:
        print(str(error), file=sys.stderr)
        return
    except OutOfMemory as error:
        if not hasattr(conversation, "take_back"):
            raise
        conversation.take_back()
        print(f"{error}\n  the turn was taken back; /reset begins anew", file=sys.stderr)
        return
    print(flush=True)


def command(conversation, line: str) -> bool:
    """Carries a command out; False for the end."""
    name, _, rest = line.partition(" ")
    if name in ("/quit", "/exit"):
        return False
    if name == "/reset":
        conversation.reset()
        print("forgotten", file=sys.stderr)
    elif name == "/system":
        conversation.system = rest.strip() or None
        conversation.reset()
    elif name == "/save" and rest.strip():
        save(conversation, rest.strip())
    elif hasattr(conversation, "command") and (told := conversation.command(name, rest.strip())) is not None:
        print(told, file=sys.stderr)
    else:
        print(f"{name} is no command: {known_commands(conversation)}", file=sys.stderr)
    return True


def save(conversation, path: str) -> None:
    try:
        conversation.save(path)
        print(f"written to {path}", file=sys.stderr)
    except UserError as error:
        print(str(error), file=sys.stderr)
    except OSError as error:
        print(f"{path} cannot be written: {error.strerror}", file=sys.stderr)
