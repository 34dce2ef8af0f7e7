// Package definition reads MCP Tool objects exactly as a server's tools/list
// gave them, and digests them.
//
// What a server says about a tool is what a reviewer agreed to. So nothing of
// it is lost or defaulted: unknown members stay in [Tool.Object] and in the
// digest, and whatever two readers could take differently is refused. The one
// exception is icons, which change what people see in a menu and nothing that
// a tool may do; they stay in Object and are left out of the digest.
//
// [Parse] reads one Tool object and [ParseList] the result of tools/list, as
// it stands in a bundle's servers/ID.tools.json.
package definition
