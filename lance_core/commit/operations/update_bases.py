"""UpdateBases: base paths are added to the table."""

from lance_core.commit.operations.context import Context
from lance_core.errors import InvalidInputError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction


def apply(message: table_pb2.Manifest, operation: Transaction.UpdateBases, context: Context) -> None:
    """Add base paths. A base path with id 0 gets the next free id.

    Raises:
        InvalidInputError: another base path has the same id, name or path, or the path is not absolute.
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
                raise InvalidInputError("base path already exists", found=new.name or new.path)
        number = new.id or max((base.id for base in message.base_paths), default=0) + 1
        message.base_paths.append(new)
        message.base_paths[-1].id = number
