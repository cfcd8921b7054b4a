"""The schema of the store, as the list of steps that made it.

Append only: a step that was released is never edited, for files exist that have applied it.
Knows no file, no lock and no transaction: whoever applies the steps holds the write lock.

    conversation ──tip──► message ──parent──► message ──► … ──► root
         ▲                 ▲   ▲
         └── response ─────┘   │         one turn of one conversation: the user's message that it
             question, answer ─┘         answers, the answer, what it cost; while it runs, the
                                         partial text and ids, and the process that runs it

    holding     which principal has a message, since when: equal messages of several are one row,
                and nobody finds what he has not said himself. A path's ancestors are held with it
    passed      where a conversation has been beside its turns, to be deleted with it
    message_fts the words of each holding of a conversation that lists show, under its number
    idempotency the response that a client's event began; api_key, setting: nothing points to them
"""

from __future__ import annotations

from sqlite_utils import Database, Migrations

from radixchat.server.store_words import searchable_text

# "RXCH". Tells our files from those of any other program that uses SQLite.
APPLICATION_ID = 0x52584348

# Kept in PRAGMA user_version; raised by one with each step below.
SCHEMA_VERSION = 5

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


@MIGRATIONS(name="m004_principals")
def m004_principals(db: Database) -> None:
    """Several principals in one file, what a server keeps of its clients, and full-text search."""
    _add_columns(db)
    _create_holdings(db)
    db.table("passed").create(
        {"conversation": str, "message": str},
        pk=("conversation", "message"),
        foreign_keys=[("conversation", "conversation", "id"), ("message", "message", "id")],
    )
    db.table("passed").create_index(["message"])
    db.table("idempotency").create(
        {
            "principal": str,
            "event_id": str,
            "digest": str,  # of what was asked
            "response": str,
            "created_at": float,
        },
        pk=("principal", "event_id"),
        not_null={"digest", "response", "created_at"},
        foreign_keys=[("response", "response", "id")],
    )
    db.table("idempotency").create_index(["response"])
    db.table("idempotency").create_index(["created_at"])
    db.table("api_key").create(
        {
            "id": str,
            "name": str,
            "principal": str,
            "digest": bytes,  # SHA-256 of the key
            "is_operator": int,
            "created_at": float,
            "revoked_at": float,
        },
        pk="id",
        not_null={"name", "principal", "digest", "is_operator", "created_at"},
    )
    db.table("api_key").create_index(["digest"], unique=True)
    db.table("setting").create({"name": str, "value": bytes}, pk="name", not_null={"value"})


@MIGRATIONS(name="m005_siblings")
def m005_siblings(db: Database) -> None:
    """conversation.sibling_of: the conversation that a response made beside another belongs to.

    While it runs it has a conversation of its own, which then is gone.
    """
    db.table("conversation").add_column("sibling_of", str)


def _add_columns(db: Database) -> None:
    """conversation.owner: the process that forgets it when it ends, of one that is not kept."""
    conversation, response = db.table("conversation"), db.table("response")
    conversation.add_column("principal", str, not_null_default="local")
    conversation.add_column("listed", int, not_null_default=1)
    conversation.add_column("kept", int, not_null_default=1)
    conversation.add_column("metadata", str, not_null_default="{}")  # JSON
    conversation.add_column("owner", str)
    conversation.create_index(["principal", "used"])
    conversation.create_index(["principal", "updated_at", "id"])
    conversation.create_index(["tip"])
    conversation.create_index(["root"])
    db.execute("CREATE INDEX conversation_unkept ON conversation(kept) WHERE kept = 0")
    response.add_column("sequence", int, not_null_default=0)
    response.add_column("metadata", str, not_null_default="{}")  # JSON
    response.add_column("previous_response", str)  # which may be deleted
    response.add_column("instructions", str)
    response.create_index(["question"])


def _create_holdings(db: Database) -> None:
    """What is there is the local user's.

    The index of words keeps no text: message.text is that, and what was put in is taken out by it.
    """
    db.table("holding").create(
        {"number": int, "principal": str, "message": str, "searchable": int, "created_at": float},
        pk="number",
        not_null={"principal", "message", "searchable", "created_at"},
        foreign_keys=[("message", "message", "id")],
    )
    db.table("holding").create_index(["message", "principal"], unique=True)
    db.execute(
        "INSERT INTO holding(principal, message, searchable, created_at) "
        "SELECT 'local', id, 1, created_at FROM message ORDER BY rowid"
    )
    db.execute(
        "CREATE VIRTUAL TABLE message_fts USING "
        "fts5(text, content='', tokenize='unicode61 remove_diacritics 2')"
    )
    held = db.query("SELECT number, text FROM holding JOIN message ON message.id = message")
    words = "INSERT INTO message_fts(rowid, text) VALUES (?, ?)"
    for row in list(held):
        db.execute(words, [row["number"], searchable_text(row["text"])])
