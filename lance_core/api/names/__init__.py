"""Names of the reference library that are not simply there.

late           the import of names at their first use, and the errors of names that no module offers
missing        the names that this package lacks, with what to use instead
namespaces     the refusal of arguments that need a namespace
"""
