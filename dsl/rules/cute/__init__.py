"""Rules of the back end `cute` alone: of its library, and of a load that only it has."""
