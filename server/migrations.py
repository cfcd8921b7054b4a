"""The schema of the store, as the list of steps that made it.

Append only: a step that was released is never edited, for files exist that have applied it.
Knows no file, no lock and no transaction: whoever applies the steps holds the write lock.

    conversation ──tip──► message ──parent──► message ──► … ──► root
         ▲                 ▲   ▲
         └── response ─────┘   │         one turn of one conversation: the user's message that it
             question, answer ─┘         answers, the answer, what it cost; while it runs, the
                                         partial text and ids, and the process that runs it
"""

from __future__ import annotations

from sqlite_utils import Database, Migrations

# "RXCH". Tells our files from those of any other program that uses SQLite.
APPLICATION_ID = 0x52584348

# Kept in PRAGMA user_version; raised by one with each step below.
SCHEMA_VERSION = 3

MIGRATIONS = Migrations("radixchat")


@MIGRATIONS(name="m001_initial")
def m001_initial(db: Database) -> None:
    """The message tree, the conversations that point into it, and the responses.

    conversation.used counts up with every turn begun or finished: "the last conversation" must
    not depend on a clock that can be set back. 0: no turn yet.
    """
    db.table("message").create(
        {
            "id": str,
            "parent": str,
            "role": str,
            "text": str,
            "token_ids": bytes,  # little-endian int32
            "absolute": int,  # 1: the ids are the whole prompt
            "status": str,
            "render_hash": str,
            "created_at": float,
        },
        pk="id",
        not_null={"role", "text", "token_ids", "absolute", "status", "render_hash", "created_at"},
        foreign_keys=[("parent", "message", "id")],
    )
    db.table("message").create_index(["parent"])
    db.table("conversation").create(
        {
            "id": str,
            "title": str,
            "root": str,  # the system message, if there is one
            "tip": str,
            "used": int,
            "created_at": float,
            "updated_at": float,
        },
        pk="id",
        not_null={"title", "used", "created_at", "updated_at"},
        foreign_keys=[("root", "message", "id"), ("tip", "message", "id")],
    )
    db.table("conversation").create_index(["used"])
    db.table("conversation").create_index(["updated_at"])
    db.table("response").create(
        {
            "id": str,
            "conversation": str,
            "question": str,
            "answer": str,
            "tip_before": str,  # of a regeneration: where the tip returns if nothing comes of it
            "status": str,
            "reason": str,
            "error": str,
            "owner": str,
            "options": str,  # JSON, as are usage and timings
            "render_hash": str,
            "text": str,  # partial, while in progress; then it is the answer's
            "token_ids": bytes,
            "usage": str,
            "timings": str,
            "created_at": float,
            "updated_at": float,  # the heartbeat while in progress
        },
        pk="id",
        not_null={
            "conversation",
            "question",
            "status",
            "owner",
            "options",
            "render_hash",
            "text",
            "token_ids",
            "created_at",
            "updated_at",
        },
        foreign_keys=[
            ("conversation", "conversation", "id"),
            ("question", "message", "id"),
            ("answer", "message", "id"),
        ],
    )
    db.table("response").create_index(["conversation"])
    # At most one running response in a conversation, whatever the code above believes.
    db.execute(
        "CREATE UNIQUE INDEX response_running ON response(conversation) "
        "WHERE status = 'in_progress'"
    )


@MIGRATIONS(name="m002_principal")
def m002_principal(db: Database) -> None:
    """For whom a response was computed, to tell why a cache did not have its tokens.

    Before there were several there was one, "local". The index: which responses made an answer.
    """
    db.table("response").add_column("principal", str, not_null_default="local")
    db.table("response").create_index(["answer"])


@MIGRATIONS(name="m003_left_out")
def m003_left_out(db: Database) -> None:
    """How many messages, and tokens, the ids of an absolute message leave out of its path."""
    for column in ("left_out", "left_out_tokens"):
        db.table("message").add_column(column, int, not_null_default=0)
