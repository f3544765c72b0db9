"""Results that the package was released with: small files, each made by one command and recording how."""
