"""What `tsp_drone`, `truck_drone_tours` and `flying_sidekicks` share; no environment of its own."""
