"""Datasets that verbs read and change: in a folder, in an object store, or on a server.

    target          the interface, which every dataset has
    local_target    datasets that this process opens itself
    remote_target   datasets on a server
    local_listing   the datasets below a folder
    opening         from the text TARGET to one of them

A verb imports only what it needs: `target` needs Arrow, `local_target` the core, and `local_listing` a whole
server.
"""
