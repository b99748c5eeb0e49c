# The stub guest: firmware that is the whole guest. It needs neither kernel nor disk, runs on the
# QEMU machines pc and q35 as `-bios`, and is linked to end where the processor starts: at 4 GiB.
#
# On COM1 it writes
#     BERTH-GUEST ready uuid=<uuid> cpus=<4 hex digits> mib=<8 hex digits>
# and then sleeps, but for 18 timer interrupts a second. At each it looks for the ACPI power
# button, which turns it off, and for letters on COM1 (before it is ready it hears neither):
#     t  write `tick <8 hex digits>`: how many interrupts there were
#     p  power off        r  reset        h  hang, deaf for the power button too
#     x  fault three times, which makes the processor start over
#
# All of it but the first instructions runs in long mode, with paging, as kernels do, and it is
# ready only when an interrupt has woken it: an accelerator that cannot do all of that leaves COM1
# silent.

        .set    RAM_TICKS, 0x1000
        .set    RAM_PAGES, 0x2000               # 6 pages of 4 KiB: maps of 512 GiB, 1 GiB, 2 MiB
        .set    RAM_STACK, 0x10000
        .set    SELECTOR_CODE32, 0x08
        .set    SELECTOR_DATA, 0x10
        .set    SELECTOR_CODE, 0x18
        .set    VECTOR_TIMER, 0x20

        .set    COM1, 0x3f8
        .set    COM1_LINE_STATUS, COM1 + 5
        .set    FW_CFG, 0x510                   # selector; the data port is one higher
        .set    FW_CFG_UUID, 2
        .set    FW_CFG_RAM_BYTES, 3
        .set    FW_CFG_CPUS, 5
        .set    LAPIC_SPURIOUS, 0xfee000f0
        .set    LAPIC_LINT0, 0xfee00350
        .set    PM_BASE, 0x600                  # where this puts the power management registers

        .text
        .code32
image:

# --- protected mode: the first 4 GiB are mapped to themselves, then long mode -------------------
start32:
        mov     $SELECTOR_DATA, %eax
        mov     %eax, %ds
        mov     %eax, %es
        mov     %eax, %ss
        mov     $RAM_STACK, %esp

        mov     $RAM_PAGES, %edi
        xor     %eax, %eax
        mov     $2 * 1024, %ecx
        rep stosl
        movl    $RAM_PAGES + 0x1003, RAM_PAGES
        mov     $RAM_PAGES + 0x2003, %eax
        mov     $RAM_PAGES + 0x1000, %edi
        mov     $4, %ecx
1:      stosl
        add     $4, %edi
        add     $0x1000, %eax
        loop    1b
        mov     $0x83, %eax                     # 2048 large pages
        mov     $RAM_PAGES + 0x2000, %edi
        mov     $2048, %ecx
1:      stosl
        movl    $0, (%edi)
        add     $4, %edi
        add     $0x200000, %eax
        loop    1b

        mov     %cr4, %eax
        or      $0x20, %eax                     # physical address extension
        mov     %eax, %cr4
        mov     $RAM_PAGES, %eax
        mov     %eax, %cr3
        mov     $0xc0000080, %ecx               # EFER: long mode
        rdmsr
        or      $0x100, %eax
        wrmsr
        mov     %cr0, %eax
        or      $0x80000000, %eax               # paging
        mov     %eax, %cr0
        ljmp    $SELECTOR_CODE, $start64

# --- the guest ----------------------------------------------------------------------------------
        .code64
start64:
        movl    $0, RAM_TICKS
        mov     $interrupt_table_pointer, %esi
        lidt    (%rsi)

        mov     $setup, %esi                    # port, value: all that is to be written once
1:      lodsw
        mov     %eax, %edx
        lodsb
        test    %dx, %dx
        jz      2f
        out     %al, %dx
        jmp     1b
2:
        # The legacy interrupt controller reaches the processor through its local APIC.
        mov     $LAPIC_LINT0, %edi
        movl    $0x700, (%rdi)
        mov     $LAPIC_SPURIOUS, %edi
        movl    $0x1ff, (%rdi)

        mov     $pci_setup, %esi                # address, value
        mov     $4, %ecx
3:      lodsl
        mov     $0xcf8, %edx
        out     %eax, %dx
        lodsl
        mov     $0xcfc, %edx
        out     %eax, %dx
        loop    3b

        sti                                     # not ready before an interrupt has come
6:      hlt
        cmpl    $0, RAM_TICKS
        je      6b

        mov     $text_ready, %esi
        call    write
        mov     $FW_CFG_UUID, %eax
        call    select
        mov     $0x00000550, %ebx               # a dash stands before the bytes 4, 6, 8 and 10
        mov     $16, %ecx
4:      shr     %ebx
        jnc     5f
        mov     $'-', %al
        call    put
5:      in      %dx, %al
        call    put_byte
        loop    4b

        mov     $text_cpus, %esi
        call    write
        mov     $FW_CFG_CPUS, %eax
        call    select
        call    read32
        movzwl  %ax, %eax                       # 16 bits wide
        rol     $16, %eax
        mov     $4, %ecx
        call    put_digits

        mov     $text_mib, %esi
        call    write
        mov     $FW_CFG_RAM_BYTES, %eax
        call    select
        call    read32
        mov     %eax, %ebx
        call    read32
        shrd    $20, %eax, %ebx
        mov     %ebx, %eax
        call    put_number

        mov     $PM_BASE + 2, %edx              # let the power button be noticed, not before
        mov     $0x100, %eax
        out     %ax, %dx

# --- asleep, and what wakes it ------------------------------------------------------------------
rest:
        hlt
        mov     $PM_BASE, %edx
        in      %dx, %ax
        test    $1, %ah
        jnz     button
letters:
        mov     $COM1_LINE_STATUS, %edx
        in      %dx, %al
        test    $1, %al
        jz      rest
        mov     $COM1, %edx
        in      %dx, %al
        cmp     $'t', %al
        je      tell
        cmp     $'p', %al
        je      power_off
        cmp     $'r', %al
        je      restart
        cmp     $'h', %al
        je      hang
        cmp     $'x', %al
        jne     letters
        mov     $no_interrupts, %esi
        lidt    (%rsi)
        ud2

tell:   mov     $text_tick, %esi
        call    write
        mov     RAM_TICKS, %eax
        call    put_number
        jmp     letters

button: mov     $text_button, %esi
        call    write
power_off:
        mov     $PM_BASE + 4, %edx              # S5
        mov     $0x2000, %eax
        out     %ax, %dx
hang:   cli
        hlt
        jmp     hang

restart:
        mov     $0xfe, %al                      # the keyboard controller pulls the reset line
        out     %al, $0x64
        jmp     hang

on_timer:
        push    %rax
        incl    RAM_TICKS
        mov     $0x20, %al
        out     %al, $0x20
        pop     %rax
        iretq

# --- writing ------------------------------------------------------------------------------------
select: mov     $FW_CFG, %edx                   # %ax: the item; leaves the data port in %dx
        out     %ax, %dx
        inc     %edx
        ret

read32: push    %rcx                            # the next 4 bytes of the item, into %eax
        mov     $4, %ecx
1:      in      %dx, %al
        ror     $8, %eax
        loop    1b
        pop     %rcx
        ret

put_number:                                     # %eax as 8 digits, and the end of the line
        mov     $8, %ecx
        call    put_digits
        mov     $text_end, %esi
write:  lodsb                                   # the text at %esi, up to a zero
        test    %al, %al
        jz      1f
        call    put
        jmp     write
1:      ret

put_digits:                                     # the upper %ecx digits of %eax
        rol     $4, %eax
        push    %rax
        call    put_digit
        pop     %rax
        loop    put_digits
        ret

put_byte:
        push    %rax
        shr     $4, %al
        call    put_digit
        pop     %rax
put_digit:
        and     $15, %al
        cmp     $10, %al
        jb      1f
        add     $'a' - '0' - 10, %al
1:      add     $'0', %al
put:    push    %rdx                            # %al, when the line is free
        push    %rax
        mov     $COM1_LINE_STATUS, %edx
1:      in      %dx, %al
        test    $0x20, %al
        jz      1b
        pop     %rax
        mov     $COM1, %edx
        out     %al, %dx
        pop     %rdx
        ret

# --- data ---------------------------------------------------------------------------------------
text_ready:     .asciz  "BERTH-GUEST ready uuid="
text_cpus:      .asciz  " cpus="
text_mib:       .asciz  " mib="
text_tick:      .asciz  "BERTH-GUEST tick "
text_button:    .asciz  "BERTH-GUEST off\r\n"
text_end:       .asciz  "\r\n"

        .macro  to port, value
        .word   \port
        .byte   \value
        .endm
setup:
        to      0x20, 0x11                      # interrupt controller: line 0 is VECTOR_TIMER,
        to      0x21, VECTOR_TIMER
        to      0x21, 0x04
        to      0x21, 0x01
        to      0x21, 0xfe                      # and the only one that counts
        to      0x43, 0x34                      # timer: as slow as it goes
        to      0x40, 0x00
        to      0x40, 0x00
        to      COM1 + 3, 0x03                  # 8 bits, no parity
        to      0, 0

        .balign 4
pci_setup:
        .long   0x80000b40, PM_BASE + 1         # pc: base of the power management registers,
        .long   0x80000b80, 1                   # and that it counts
        .long   0x8000f840, PM_BASE + 1         # q35, likewise
        .long   0x8000f844, 0x80

        # Of the table of interrupts only the timer's entry is there: no other is let through, and
        # a fault is the end anyway.
        .balign 16
timer_entry:
        .word   (on_timer - image) + IMAGE_LOW
        .word   SELECTOR_CODE
        .word   0x8e00
        .word   0xffff
        .quad   0
interrupt_table_pointer:
        .word   VECTOR_TIMER * 16 + 15
        .long   timer_entry - VECTOR_TIMER * 16, 0
no_interrupts:
        .word   0
        .long   0, 0

        .balign 8
segments:                                       # marked as used already: this is no RAM
        .quad   0
        .quad   0x00cf9b000000ffff              # code, 4 GiB
        .quad   0x00cf93000000ffff              # data, 4 GiB
        .quad   0x00af9b000000ffff              # code of long mode
segments_pointer:
        .word   segments_pointer - segments - 1
        .long   segments

# --- where the processor starts, in real mode ---------------------------------------------------
        .code16
        .globl  start16
start16:
        cli
        cld
        lgdtl   %cs:(segments_pointer - image) + IMAGE_LOW
        mov     %cr0, %eax
        or      $1, %al
        mov     %eax, %cr0
        ljmpl   $SELECTOR_CODE32, $start32

        .org    IMAGE_BYTES - 16
        jmp     start16
        .org    IMAGE_BYTES
