"""Distribution of the row ranges of a plan to the endpoints of a Flight."""

from collections.abc import Iterator, Sequence

from lance_core.scan.plan.scan_plan import FragmentScan


def split_tasks(
    tasks: Sequence[FragmentScan], *, rows_per_endpoint: int | None, max_endpoints: int
) -> Iterator[tuple[FragmentScan, ...]]:
    """Yield the tasks of each endpoint, in order: one fragment each, pieces of `rows_per_endpoint` rows
    where given.

    Beyond `max_endpoints` neighbouring pieces share an endpoint. Costs O(tasks + endpoints), however small
    the pieces are. Without tasks there is one endpoint, an empty one.
    """
    if not tasks:
        yield ()
        return
    num_pieces = sum(_num_pieces(task, rows_per_endpoint) for task in tasks)
    pieces_per_endpoint = -(-num_pieces // max_endpoints)
    endpoint: list[FragmentScan] = []
    room = pieces_per_endpoint
    for task in tasks:
        start = task.start
        while start < task.end:
            rest = FragmentScan(task.fragment_id, start, task.end)
            taken = min(room, _num_pieces(rest, rows_per_endpoint))
            end = task.end if rows_per_endpoint is None else min(task.end, start + taken * rows_per_endpoint)
            endpoint.append(FragmentScan(task.fragment_id, start, end))
            start = end
            room -= taken
            if room == 0:
                yield tuple(endpoint)
                endpoint, room = [], pieces_per_endpoint
    if endpoint:
        yield tuple(endpoint)


def _num_pieces(task: FragmentScan, rows_per_endpoint: int | None) -> int:
    return 1 if rows_per_endpoint is None else -(-(task.end - task.start) // rows_per_endpoint)
