//! Says in the binary where to report a weakness, in the form that explorers read (`solana-security-txt`).

/// Names and values in turn, each ended by a zero.
#[used]
static SECURITY_TXT: [u8; 316] = *b"=======BEGIN SECURITY.TXT V1=======\0\
name\0Tacit vault\0\
project_url\0not published\0\
contacts\0other:the operator of the venue, or the maintainers of the source\0\
policy\0SECURITY.md of the source: report privately, with time for a fix before you publish\0\
preferred_languages\0en\0\
auditors\0None\0\
=======END SECURITY.TXT V1=======\0";
