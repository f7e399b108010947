"""The scenarios that come with `truck_drone`."""
