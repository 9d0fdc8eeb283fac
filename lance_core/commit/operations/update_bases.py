"""UpdateBases: more places that files of the table may be in."""

from lance_core.commit.operations.context import Context
from lance_core.errors import InvalidInputError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction


def apply(message: table_pb2.Manifest, operation: Transaction.UpdateBases, context: Context) -> None:
    """Add the base paths; one with id 0 gets the next.

    Raises:
        InvalidInputError: an id, a name or a path that another base has, or a path that is not absolute.
    """
    for new in operation.new_bases:
        if not new.path.startswith("/") and "://" not in new.path:
            raise InvalidInputError("base path", expected="an absolute one", found=repr(new.path))
        for old in message.base_paths:
            if (
                new.path == old.path
                or (new.HasField("name") and new.name == old.name)
                or new.id == old.id > 0
            ):
                raise InvalidInputError("base path is there already", found=new.name or new.path)
        number = new.id or max((base.id for base in message.base_paths), default=0) + 1
        message.base_paths.append(new)
        message.base_paths[-1].id = number
