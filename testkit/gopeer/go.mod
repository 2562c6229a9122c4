module narthex/testkit/gopeer

go 1.26.0

require golang.org/x/net v0.58.0

require golang.org/x/text v0.41.0 // indirect
