//! Operations, models and history checking for tests of the maps.
