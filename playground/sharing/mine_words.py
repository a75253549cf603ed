"""The words of "My sessions" in a reader's language, by Django's translations (playground/sharing/locale).

A session's title and what the server says of a refused request stay in English.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop

from playground.learn.words import translations

# What the scripts say (static/js/mine, static/js/dialog.js): an English text is its own key (static/js/texts.js).
SCRIPT = (
    gettext_noop("Session"),
    gettext_noop("Stop"),
    gettext_noop("queued"),
    gettext_noop("running"),
    gettext_noop("ended"),
    gettext_noop("measured"),
    gettext_noop("predicted"),
    gettext_noop("Cancel"),
    gettext_noop("State"),
    gettext_noop("Started"),
    gettext_noop("Actions"),
    gettext_noop("never"),
    gettext_noop("Stop “{title}”?"),
    gettext_noop("deleted"),
    gettext_noop("without a name"),
    gettext_noop("made {when}, last used {last}"),
    gettext_noop("revoked {when}"),
    gettext_noop("Revoke"),
    gettext_noop("No session yet."),
    gettext_noop("Copy control link"),
    gettext_noop("Control link copied: whoever has it can stop this session."),
    gettext_noop("Forget"),
    gettext_noop("It cannot be continued; what it reached stays."),
    gettext_noop("Pause it to go on later."),
    gettext_noop("Stop the session"),
    gettext_noop("Stopping."),
    gettext_noop("The token was not revoked."),
    gettext_noop("Try again."),
    gettext_noop("The server does not answer."),
    gettext_noop("Try again in a moment."),
)
# What the template says (templates/mine.html), so that a test finds each of them here.
PAGE = (
    gettext_noop("My sessions"),
    gettext_noop("Language"),
    gettext_noop(
        "Sessions that you started in this browser, with their control links. This browser alone keeps the list."
    ),
    gettext_noop("Started here"),
    gettext_noop("None yet. A session that you start on the playground appears here."),
    gettext_noop("Add your agent"),
    gettext_noop(
        "Let your own coding agent optimise kernels here. Make an owner token, add this server to "
        "the agent, and watch its sessions live."
    ),
    gettext_noop("Name of the token"),
    gettext_noop("my agent"),
    gettext_noop("Make a token"),
    gettext_noop(
        "Copy the token now: it is shown once. Whoever has it controls the sessions that are started with it."
    ),
    gettext_noop("For Claude Code:"),
    gettext_noop("For other agents, in their list of MCP servers:"),
    gettext_noop("Owner tokens of this browser"),
    gettext_noop("There is none yet."),
)


def texts(language: str) -> dict[str, str]:
    """{English text: its translation} of the scripts; empty in English."""
    return translations(SCRIPT, language)
