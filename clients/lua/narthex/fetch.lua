--- Passes on a page of metrics that another process renders, without holding it.

local M = {}

local TIMEOUT_MS = 5000
local PIECE = 65536

--- Returns the host and port, or the socket's path, and the path of a URL: http://HOST:PORT/PATH or unix:/SOCKET:/PATH.
function M.parse(url)
  local socket, path = url:match("^unix:(/[^:]*):(/.*)$")
  if socket then
    return "unix:" .. socket, nil, path
  end
  local host, rest = url:match("^http://([^/]+)(.*)$")
  if not host then
    return nil
  end
  local name, port = host:match("^(.*):(%d+)$")
  return name or host, tonumber(port) or 80, rest ~= "" and rest or "/"
end

--- Sends the page at `url` to `sink`, piece by piece. Returns true, or false and why not, and whether pieces were sent.
function M.stream(url, sink)
  local host, port, path = M.parse(url)
  if not host then
    return false, "not a URL: " .. url
  end
  local socket = ngx.socket.tcp()
  socket:settimeouts(TIMEOUT_MS, TIMEOUT_MS, TIMEOUT_MS)
  local ok, err
  if port then
    ok, err = socket:connect(host, port)
  else
    ok, err = socket:connect(host)
  end
  if not ok then
    return false, err
  end
  -- A body of version 1.0 ends with the connection: nothing has to be decoded.
  local bytes
  bytes, err = socket:send("GET " .. path .. " HTTP/1.0\r\nHost: " .. (port and host or "localhost") .. "\r\n\r\n")
  local status = bytes and socket:receive("*l")
  if not status or not status:find("^HTTP/1%.%d 200") then
    socket:close()
    return false, status or err or "no answer"
  end
  repeat
    local line = socket:receive("*l")
  until not line or line == ""
  local has_sent = false
  while true do
    local piece
    piece, err = socket:receiveany(PIECE)
    if not piece then
      break
    end
    has_sent = true
    sink(piece)
  end
  socket:close()
  return err == "closed", err, has_sent
end

return M
