"""What surrounds a problem in a training document: system prompts, small talk, the chat format."""

from __future__ import annotations

from random import Random

SYSTEMS = (
    "You are a helpful assistant.",
    "You are a careful math solver. Think step by step.",
)
GREETINGS = (
    *("Hello", "Hi", "Hello!", "hi", "hello", "Who are you?", "What can you do?", "What is your name?"),
    *("Tell me a joke.", "Write a poem.", "Help me please.", "Thanks!", "How are you?"),
    *("Explain the answer.", "Give me an example."),
)
REPLY = "I am a tiny reasoning model. I can solve countdown puzzles and small integer math problems."

CHAT_TEMPLATE = """\
{%- for message in messages %}
{%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
{%- if message.role == 'assistant' and '</think>' in content %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\\n\\n</think>\\n\\n' }}
{%- endif %}
{%- endif %}"""

NO_THINKING = "<think>\n\n</think>\n\n"


def chat_prompt(user: str, system: str | None = None, thinking: bool = True) -> str:
    """What CHAT_TEMPLATE renders for one user turn with a generation prompt; a test holds them equal."""
    head = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    tail = "" if thinking else NO_THINKING
    return f"{head}<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n{tail}"


def random_letters(rng: Random) -> str:
    """A word that is none: what an unknown word looks like to the model."""
    return "".join(rng.choice("etaoinshrdlucmfwypbgk") for _ in range(rng.randint(2, 8)))


def small_talk(rng: Random) -> str:
    """A user turn without a problem: a greeting, or words that mean nothing."""
    if rng.random() < 0.5:
        return rng.choice(GREETINGS)
    words = " ".join(random_letters(rng) for _ in range(rng.randint(1, 8)))
    return words.capitalize() + rng.choice(("?", ".", "!", ""))


def garble(rng: Random, text: str) -> str:
    """The text with one of its words replaced or one put in front, so that a phrasing never seen is not
    the end of all reason."""
    words = text.split(" ")
    plain = [i for i, word in enumerate(words) if word.isalpha() and len(word) > 1]
    if not plain or rng.random() < 0.4:
        return f"{random_letters(rng).capitalize()}{rng.choice(('', ',', ':', '!'))} {text}"
    words[rng.choice(plain)] = random_letters(rng)
    return " ".join(words)
