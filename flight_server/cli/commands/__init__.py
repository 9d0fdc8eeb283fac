"""The verbs of `lance-flight`, one file each. `flight_server.cli.verbs` lists them."""
