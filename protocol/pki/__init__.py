"""Who is who in a deployment: certificates for links, identities for signatures, and the signed directory that joins the two."""
