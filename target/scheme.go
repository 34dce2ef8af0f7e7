package target

// defaultPort holds the schemes that a URL may have: those that reach a host
// (scheme://host) and whose default port the IANA service registry fixes. A
// URL needs the default port for its one normal form: without it,
// scheme://host and scheme://host:port could be one resource under two texts.
//
// An unknown scheme is refused. So are file (a path is not a URL), javascript,
// data and the like (they reach no host), gopher, dict and telnet (they are
// known for carrying other protocols to a permitted host), and second names of
// a scheme (postgres for postgresql).
var defaultPort = map[string]int{
	"http":  80,  // RFC 9110, section 4.2.1
	"https": 443, // RFC 9110, section 4.2.2
	"ws":    80,  // RFC 6455, section 3
	"wss":   443, // RFC 6455, section 3

	"ftp":   21, // RFC 1738, section 3.2
	"sftp":  22,
	"ssh":   22,
	"rsync": 873,  // RFC 5781
	"nfs":   2049, // RFC 2224
	"smb":   445,
	"git":   9418,
	"svn":   3690,

	"ldap":  389, // RFC 4516
	"ldaps": 636,
	"imap":  143, // RFC 5092
	"nntp":  119, // RFC 5538
	"rtsp":  554, // RFC 7826

	"amqp":       5672,
	"amqps":      5671,
	"mqtt":       1883,
	"mqtts":      8883,
	"mongodb":    27017,
	"mysql":      3306,
	"postgresql": 5432,
	"redis":      6379,
}
