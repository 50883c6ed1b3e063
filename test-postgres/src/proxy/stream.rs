//! A connection's bytes, over a Unix socket or TCP.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(super) fn close(&self) {
        self.shutdown(Shutdown::Both);
    }

    pub(super) fn close_writing(&self) {
        self.shutdown(Shutdown::Write);
    }

    fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).read(buffer),
            Stream::Tcp(stream) => (&mut &*stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `false`: the stream ended before the first byte.
pub(super) fn read_or_end(stream: &mut &Stream, buffer: &mut [u8]) -> io::Result<bool> {
    loop {
        match stream.read(&mut buffer[..1]) {
            Ok(0) => return Ok(false),
            Ok(_) => return stream.read_exact(&mut buffer[1..]).map(|()| true),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// What is left of a message whose length counts itself and whose first `read` bytes of that count are known.
pub(super) fn length(bytes: &[u8], read: usize) -> io::Result<usize> {
    let length = bytes.try_into().map_or(0, u32::from_be_bytes) as usize;
    let sane = length.checked_sub(read).filter(|_| length < 1 << 30);
    sane.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not PostgreSQL's protocol"))
}
